"""The state that a run hands on to the next."""

from typing import Any

import pytest

from reconcile.decide import attempt_ends
from reconcile.decide.attempt_ends import LARGEST, ProducedState


@pytest.mark.parametrize(
    ("output", "text"),
    [
        pytest.param(None, None, id="no output"),
        pytest.param({"cost": 1}, None, id="an output without"),
        pytest.param({"state": None}, "null", id="null is a state"),
        pytest.param({"state": {"b": 1, "a": [2]}}, '{"a":[2],"b":1}', id="canonical"),
        pytest.param({"state": "ü"}, '"ü"', id="a text"),
    ],
)
def test_an_output_says_the_next_state(output: dict[str, Any] | None, text: str | None) -> None:
    """X-03, X-06: as canonical JSON."""
    assert attempt_ends.produced_state(output) == (None if text is None else ProducedState(text, None))


@pytest.mark.parametrize(
    ("value", "size"),
    [
        pytest.param("x" * (LARGEST - 2), LARGEST, id="as large as may be"),
        pytest.param("x" * (LARGEST - 1), LARGEST + 1, id="a byte more"),
        pytest.param("ü" * (LARGEST // 2), LARGEST + 2, id="counted in bytes"),
    ],
)
def test_a_state_is_64_kib_at_most(value: str, size: int) -> None:
    """X-06: of its canonical text."""
    kept = attempt_ends.state_of(value)
    assert len(kept.text.encode()) == size
    fault = f"is {size:,} bytes as canonical JSON, at most 65,536 are kept"
    assert kept.fault == (fault if size > LARGEST else None)
