"""Chains walked: what is hashed, and where a history stops being one; pure."""

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
    made = Revision(
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
    made = replace(made, **values)
    return replace(made, hash=link(made))


def history(*values: dict[str, Any]) -> list[Revision]:
    made: list[Revision] = []
    for number, given_values in enumerate(values, 1):
        made.append(revision(number, made[-1].hash if made else ORIGIN, **given_values))
    return made


def rows_of(revisions: list[Revision]) -> list[Row]:
    return [written(one) for one in revisions]


def row_for(revisions: list[Revision]) -> dict[str, Any]:
    current = fold(revisions)
    assert current is not None
    return current_row(current)


@given(ANY_TEXT)
def test_a_string_is_quoted_as_rfc_8785_says(text: str) -> None:
    """R-10: the fast quoting of the envelope's texts is RFC 8785's, character for character."""
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
    """R-10: what is hashed is the canonical text of the whole envelope, whatever its fields hold."""
    values = {"actor": actor, "reason": reason, "origin": origin, "active": active, "tags": tuple(tags)}
    made = revision(1, ORIGIN, **values, at=at, until=at, idempotency_key=origin)
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
    assert chain.envelope(made) == rfc8785.dumps(envelope).decode()
    assert revision_of(written(made)) == made


def test_a_row_has_the_columns_of_the_table() -> None:
    """R-10: rows are walked as they are stored, in the table's own order."""
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
def test_walking_ends_in_the_fold(values: list[dict[str, Any]]) -> None:
    """R-11: what a walk ends in is the fold of all revisions, though it looks at few of them."""
    made = history(*values)
    walk = Walk("01J")
    assert walk.extend(rows_of(made[:2])) is None
    assert walk.extend(rows_of(made[2:])) is None
    assert walk.current == fold(made)
    assert walk.end(row_for(made)) is None


@given(st.integers(0, 2), st.sampled_from(COLUMNS), st.integers(1, 3))
def test_every_field_is_hashed(index: int, column: str, pages: int) -> None:
    """R-10: whatever field of whatever revision is edited, that revision is named, or the one after it."""
    made = history({}, {"reason": "x"}, {"until": START})
    listed = rows_of(made)
    place = COLUMNS.index(column)
    found = listed[index][place]
    other = not found if isinstance(found, bool) else found + 7 if isinstance(found, int) else f"{found or ''}x"
    listed[index] = (*listed[index][:place], other, *listed[index][place + 1 :])
    first = breaks(listed, row_for(made))
    assert first is not None
    assert first.revision == index + 1


def test_no_text_can_be_moved_from_one_column_to_the_next() -> None:
    """R-10: the bytes that are hashed can be split in one way only, also by a spec that holds the envelope's keys."""
    spec = canonical({"task_version": "v1", "schedule": {"every": "1m"}, "input": {"a": 1, "spec": 2, "tags": []}})
    made = history({"spec": spec})
    row = dict(zip(COLUMNS, rows_of(made)[0], strict=True))
    text = text_of(tuple(row.values()))
    before, after = row["spec"].split(',"spec":', 1)
    moved = row | {"scopes": f'{row["scopes"]},"spec":{before}', "spec": after}
    assert text_of(tuple(moved.values())) == text
    first = breaks([tuple(moved.values())], row_for(made))
    assert first is not None
    assert first.what is BreakKind.CONTENT
    before, after = row["spec"].split(',"tags":', 1)
    moved = row | {"spec": before, "tags": f'{after},"tags":{row["tags"]}'}
    assert text_of(tuple(moved.values())) == text
    first = breaks([tuple(moved.values())], row_for(made))
    assert first is not None
    assert first.what is BreakKind.CONTENT


def test_the_current_row_must_be_the_fold() -> None:
    """R-10: each of its fields is named when it differs; so is a row that is missing, and one without a history."""
    made = history({}, {"action": Action.DEACTIVATE, "active": False, "reason": "quiet"})
    row = row_for(made)
    assert breaks(rows_of(made), row) is None
    for field in row.keys() - {"trigger_id"}:
        first = breaks(rows_of(made), row | {field: "other"})
        assert first is not None
        assert (first.what, first.field, first.found, first.revision) == (BreakKind.CURRENT, field, "other", 2)
    missing = breaks(rows_of(made), None)
    assert missing is not None
    assert "missing" in missing.message
    bare = breaks([], row)
    assert bare is not None
    assert "no history" in bare.message


def test_a_signed_head_must_be_passed_as_it_was() -> None:
    """R-10: a history that is sound in itself is held against the head that was signed."""
    made = history({}, {}, {})
    head = ChainHead("01J", KEY, 2, made[1].hash)
    assert Walk("01J", head).extend(rows_of(made)) is None
    again = history({}, {"actor": "mallory"}, {})
    first = Walk("01J", head).extend(rows_of(again))
    assert first is not None
    assert (first.what, first.revision) == (BreakKind.CHECKPOINT, 2)
    cut = Walk("01J", head)
    assert cut.extend(rows_of(made[:1])) is None
    first = cut.end(row_for(made[:1]))
    assert first is not None
    assert (first.what, first.revision, first.found) == (BreakKind.CHECKPOINT, 2, None)
