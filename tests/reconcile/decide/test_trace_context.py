"""Names of traces and spans."""

import pytest

from reconcile.decide import trace_context
from reconcile.decide.trace_context import Context
from revisions.outcomes import RunSource

RUN = "01K4W8Z3M5T9Q2B7C6D5E4F3G2"
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_the_trace_of_a_run_that_continues_nothing_follows_from_its_id() -> None:
    """O-04, invariant 5: without anything that is kept; each of its spans has another name."""
    run = trace_context.of_run(RUN, None, 3)
    assert run.trace == "71ded158ba8d1c3e388c07fc767f3534"
    attempts = {trace_context.of_attempt(run, RUN, number) for number in (1, 2)}
    assert {one.trace_id for one in attempts} == {run.trace_id}
    assert len({one.span_id for one in attempts} | {run.span_id, trace_context.of_run(RUN, None, 6).span_id}) == 4
    assert trace_context.of_run(RUN, None, 3) == run


def test_a_run_goes_on_with_the_trace_of_its_request() -> None:
    """O-04: with the request's decision whether it is recorded, too."""
    parent = trace_context.parse(PARENT)
    assert parent is not None
    run = trace_context.of_run(RUN, parent, 3)
    assert (run.trace, run.is_sampled) == ("4bf92f3577b34da6a3ce929d0e0e4736", True)
    assert run.span_id not in (parent.span_id, 0)


def test_many_runs_of_one_request_are_traces_of_their_own() -> None:
    """O-04: a backfill's, which are linked to it."""
    assert trace_context.continued(RunSource.MANUAL, PARENT) == PARENT
    assert trace_context.continued(RunSource.BACKFILL, PARENT) is None


@pytest.mark.parametrize("flags", ["00", "01", "02", "03"])
def test_what_is_read_is_written_alike(flags: str) -> None:
    """O-04: the form of W3C Trace Context."""
    text = PARENT[:-2] + flags
    assert str(trace_context.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-will-be-like", PARENT),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff", PARENT[:-2] + "03"),
    ],
    ids=["later version", "later flags"],
)
def test_later_versions_are_read_as_far_as_they_are_known(text: str, read: str) -> None:
    """O-04: as the standard demands, so that a newer caller's trace goes on."""
    assert str(trace_context.parse(text)) == read


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "nothing",
        PARENT.upper(),
        f" {PARENT}",
        f"{PARENT}-more",
        f"ff{PARENT[2:]}",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        PARENT[:-1],
    ],
    ids=str,
)
def test_what_is_no_traceparent_is_as_if_there_were_none(text: str | None) -> None:
    """O-04: a trace begins anew; no request is refused for it."""
    assert trace_context.parse(text) is None


def test_recorded_or_not_is_one_flag() -> None:
    assert [str(Context(1, 2).sampled(yes))[-2:] for yes in (True, False)] == ["03", "02"]
