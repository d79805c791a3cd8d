"""Differences of JSON values, checked by applying them."""

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from revisions.history.chain import canonical
from revisions.history.triggers import DifferenceKind, FieldDifference, differences

TEXTS = st.text(st.sampled_from('ab.[]"\\ 0ü'), max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2, allow_nan=False) | TEXTS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXTS, below, max_size=3),
    max_leaves=10,
)
STEP = re.compile(r'\.?(?P<name>[^."\[\]]+)|\[(?P<index>\d+)\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]')


def steps(path: str) -> list[Any]:
    """Return the keys and list indexes of a path; each path can be parsed in one way only."""
    matches = list(STEP.finditer(path))
    assert "".join(step[0] for step in matches) == path
    return [
        step["name"] if step["name"] else json.loads(step["quoted"]) if step["quoted"] else int(step["index"])
        for step in matches
    ]


def applied(value: Any, changes: list[FieldDifference]) -> Any:
    """Return the value with the differences applied; removals come last, starting at the end of each list."""
    root = [copy.deepcopy(value)]
    removals = [change for change in changes if change.kind is DifferenceKind.REMOVED]
    for change in [change for change in changes if change.kind is not DifferenceKind.REMOVED] + removals[::-1]:
        holder: Any = root
        *parents, last = [0, *steps(change.path)]
        for step in parents:
            holder = holder[step]
        if change.kind is DifferenceKind.REMOVED:
            del holder[last]
        elif change.kind is DifferenceKind.ADDED and isinstance(holder, list):
            assert last == len(holder)
            holder.append(change.after)
        else:
            holder[last] = change.after
    return root[0]


@given(VALUES, VALUES)
def test_differences_turn_the_first_value_into_the_second(before: Any, after: Any) -> None:
    """R-09: applying them to the first value gives the second; swapped values give swapped differences."""
    changes = list(differences(before, after))
    assert canonical(applied(before, changes)) == canonical(after)
    assert (changes == []) == (canonical(before) == canonical(after))
    swapped = {
        DifferenceKind.ADDED: DifferenceKind.REMOVED,
        DifferenceKind.REMOVED: DifferenceKind.ADDED,
        DifferenceKind.CHANGED: DifferenceKind.CHANGED,
    }
    assert list(differences(after, before)) == [
        FieldDifference(change.path, swapped[change.kind], change.after, change.before) for change in changes
    ]


@given(VALUES, VALUES)
def test_each_path_occurs_once(before: Any, after: Any) -> None:
    """R-09: an added value has no value before, a removed one no value after."""
    changes = list(differences(before, after))
    assert len({change.path for change in changes}) == len(changes)
    assert all(change.before is None for change in changes if change.kind is DifferenceKind.ADDED)
    assert all(change.after is None for change in changes if change.kind is DifferenceKind.REMOVED)


CASES: dict[str, tuple[Any, Any, list[tuple[str, str]]]] = {
    "same": ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, []),
    "a key": ({"a": 1}, {"a": 2}, [("a", "changed")]),
    "another type": ({"a": {"b": 1}}, {"a": [1]}, [("a", "changed")]),
    "true is not 1": ([True], [1], [("[0]", "changed")]),
    "1.0 is 1": ([1.0], [1], []),
    "null differs from a missing key": ({"a": None}, {}, [("a", "removed")]),
    "a longer list": ([1], [1, 2, 3], [("[1]", "added"), ("[2]", "added")]),
    "a key that reads like a path": (
        {"a.b": 1},
        {"a": {"b": 1}},
        [("a", "added"), ('["a.b"]', "removed")],
    ),
}


@pytest.mark.parametrize(("before", "after", "expected"), CASES.values(), ids=CASES)
def test_mappings_are_compared_by_key_and_lists_by_index(
    before: Any, after: Any, expected: list[tuple[str, str]]
) -> None:
    """R-09: all other values are compared as a whole."""
    assert [(change.path, change.kind.value) for change in differences(before, after)] == expected
