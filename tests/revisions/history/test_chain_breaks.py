"""Hash chains: the hashed text, and the breaks that a walk finds."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from revisions.history import chain
from revisions.history.chain import COLUMNS, ORIGIN, Row, canonical, link, quoted, revision_of, text_of, written
from revisions.history.chain_breaks import BreakKind, ChainHead, Walk, breaks, current_row
from revisions.history.triggers import Action, Revision, fold
from revisions.ids import TriggerKey, utc_text
from revisions.store.tables import trigger_revisions

KEY = TriggerKey("acme", "production", "report", "tick")
START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def revision(number: int, previous: str, **values: Any) -> Revision:
    spec = canonical({"task_version": "v1", "schedule": {"every": "1m"}, "description": f"revision {number}"})
    unhashed = Revision(
        trigger_id="01J",
        key=KEY,
        revision=number,
        action=Action.DEPLOY,
        actor="ann",
        reason="",
        at=START + timedelta(minutes=number),
        active=True,
        tags=("a",),
        until=None,
        origin=None,
        idempotency_key=None,
        resolved="{}",
        scopes='["*"]',
        spec=spec,
        previous_hash=previous,
        hash="",
    )
    unhashed = replace(unhashed, **values)
    return replace(unhashed, hash=link(unhashed))


def history(*values: dict[str, Any]) -> list[Revision]:
    revisions: list[Revision] = []
    for number, fields in enumerate(values, 1):
        revisions.append(revision(number, revisions[-1].hash if revisions else ORIGIN, **fields))
    return revisions


def rows_of(revisions: list[Revision]) -> list[Row]:
    return [written(revision) for revision in revisions]


def row_for(revisions: list[Revision]) -> dict[str, Any]:
    current = fold(revisions)
    assert current is not None
    return current_row(current)


@given(ANY_TEXT)
def test_strings_are_quoted_as_in_rfc_8785(text: str) -> None:
    """R-10: `quoted` is a faster implementation with the same result."""
    assert quoted(text) == rfc8785.dumps(text).decode()


@given(
    ANY_TEXT,
    ANY_TEXT,
    st.one_of(st.none(), ANY_TEXT),
    st.booleans(),
    st.lists(ANY_TEXT),
    st.datetimes(datetime(1970, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001  # hypothesis adds the zone
)
def test_the_envelope_is_canonical_json(
    actor: str, reason: str, origin: str | None, active: bool, tags: list[str], at: datetime
) -> None:
    """R-10: the hashed text is the RFC 8785 form of the envelope, for any values of its fields."""
    values = {"actor": actor, "reason": reason, "origin": origin, "active": active, "tags": tuple(tags)}
    first = revision(1, ORIGIN, **values, at=at, until=at, idempotency_key=origin)
    envelope: dict[str, Any] = {
        "action": "DEPLOY",
        "active": active,
        "actor": actor,
        "at": utc_text(at),
        "idempotency_key": origin,
        "origin": origin,
        "previous_hash": "",
        "reason": reason,
        "resolved": {},
        "revision": 1,
        "scopes": ["*"],
        "spec": {"description": "revision 1", "schedule": {"every": "1m"}, "task_version": "v1"},
        "tags": tags,
        "trigger": ["01J", *KEY],
        "until": utc_text(at),
    }
    assert chain.envelope(first) == rfc8785.dumps(envelope).decode()
    assert revision_of(written(first)) == first


def test_a_row_has_the_columns_of_the_table() -> None:
    """R-10: `COLUMNS` lists them in the table's order."""
    assert [column.name for column in trigger_revisions.c] == list(COLUMNS)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "action": st.sampled_from(Action),
                "active": st.booleans(),
                "reason": st.sampled_from(["", "a", "b"]),
            }
        ),
        min_size=1,
    )
)
def test_a_walk_ends_with_the_fold_of_all_revisions(values: list[dict[str, Any]]) -> None:
    """R-11: although it applies only some of them."""
    revisions = history(*values)
    walk = Walk("01J")
    assert walk.extend(rows_of(revisions[:2])) is None
    assert walk.extend(rows_of(revisions[2:])) is None
    assert walk.current == fold(revisions)
    assert walk.end(row_for(revisions)) is None


@given(st.integers(0, 2), st.sampled_from(COLUMNS))
def test_an_edit_of_any_field_breaks_the_chain_at_its_revision(index: int, column: str) -> None:
    """R-10: every field of a revision is hashed."""
    revisions = history({}, {"reason": "x"}, {"until": START})
    rows = rows_of(revisions)
    place = COLUMNS.index(column)
    value = rows[index][place]
    edited = not value if isinstance(value, bool) else value + 7 if isinstance(value, int) else f"{value or ''}x"
    rows[index] = (*rows[index][:place], edited, *rows[index][place + 1 :])
    first = breaks(rows, row_for(revisions))
    assert first is not None
    assert first.revision == index + 1


def test_text_moved_from_one_column_to_the_next_breaks_the_chain() -> None:
    """R-10: the hashed text stays the same, so the walk checks the columns; a spec may contain the envelope's keys."""
    spec = canonical({"task_version": "v1", "schedule": {"every": "1m"}, "input": {"a": 1, "spec": 2, "tags": []}})
    revisions = history({"spec": spec})
    row = dict(zip(COLUMNS, rows_of(revisions)[0], strict=True))
    text = text_of(tuple(row.values()))
    before, after = row["spec"].split(',"spec":', 1)
    moved = row | {"scopes": f'{row["scopes"]},"spec":{before}', "spec": after}
    assert text_of(tuple(moved.values())) == text
    first = breaks([tuple(moved.values())], row_for(revisions))
    assert first is not None
    assert first.what is BreakKind.CONTENT
    before, after = row["spec"].split(',"tags":', 1)
    moved = row | {"spec": before, "tags": f'{after},"tags":{row["tags"]}'}
    assert text_of(tuple(moved.values())) == text
    first = breaks([tuple(moved.values())], row_for(revisions))
    assert first is not None
    assert first.what is BreakKind.CONTENT


def test_a_current_row_that_differs_from_the_fold_is_a_break() -> None:
    """R-10: the break names the field, a missing row, or a row without a history."""
    revisions = history({}, {"action": Action.DEACTIVATE, "active": False, "reason": "quiet"})
    row = row_for(revisions)
    assert breaks(rows_of(revisions), row) is None
    for field in row.keys() - {"trigger_id"}:
        first = breaks(rows_of(revisions), row | {field: "other"})
        assert first is not None
        assert (first.what, first.field, first.found, first.revision) == (BreakKind.CURRENT, field, "other", 2)
    missing = breaks(rows_of(revisions), None)
    assert missing is not None
    assert "missing" in missing.message
    without_history = breaks([], row)
    assert without_history is not None
    assert "no history" in without_history.message


def test_a_history_without_the_signed_head_is_a_break() -> None:
    """R-10: a rewritten or shortened history has a valid chain, but not the revision that the checkpoint signed."""
    revisions = history({}, {}, {})
    head = ChainHead("01J", KEY, 2, revisions[1].hash)
    assert Walk("01J", head).extend(rows_of(revisions)) is None
    rewritten = history({}, {"actor": "mallory"}, {})
    first = Walk("01J", head).extend(rows_of(rewritten))
    assert first is not None
    assert (first.what, first.revision) == (BreakKind.CHECKPOINT, 2)
    shortened = Walk("01J", head)
    assert shortened.extend(rows_of(revisions[:1])) is None
    first = shortened.end(row_for(revisions[:1]))
    assert first is not None
    assert (first.what, first.revision, first.found) == (BreakKind.CHECKPOINT, 2, None)
