"""How instants, spans and reasons are written in a sentence: pure (U-03)."""

from datetime import datetime, timedelta

from revisions.ids import utc_text


def at_text(at: datetime) -> str:
    """An instant to the second, which is all that people ask for."""
    return utc_text(at.replace(microsecond=0))


def because(reason: str) -> str:
    """A reason after what it is the reason of, nothing for none."""
    return f" ({reason})" if reason else ""


def span_text(span: timedelta) -> str:
    """A span in seconds, to the millisecond."""
    return f"{span.total_seconds():.3f}".rstrip("0").rstrip(".") + " s"
