"""Instants, spans and reasons in a sentence."""

from datetime import UTC, datetime, timedelta

import pytest

from reconcile.report.wording import at_text, because, span_text


def test_instants_are_written_to_the_second() -> None:
    """U-03."""
    assert at_text(datetime(2026, 3, 2, 8, 0, 5, 999_999, tzinfo=UTC)) == "2026-03-02T08:00:05Z"


@pytest.mark.parametrize(("reason", "text"), [("", ""), ("holiday", " (holiday)")])
def test_a_reason_stands_in_brackets(reason: str, text: str) -> None:
    """U-03: none leaves nothing."""
    assert because(reason) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (5, "5 s"), (100, "100 s"), (0.25, "0.25 s"), (1.23456, "1.235 s")]
)
def test_spans_are_written_to_the_millisecond(seconds: float, text: str) -> None:
    """U-03: without zeros at the end."""
    assert span_text(timedelta(seconds=seconds)) == text
