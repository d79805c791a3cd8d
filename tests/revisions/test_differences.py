"""What differs between two JSON values, held against putting it right."""

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
    """The keys and places that a path goes through; all of it is read, each part in one way."""
    found = list(STEP.finditer(path))
    assert "".join(step[0] for step in found) == path
    return [
        step["name"] if step["name"] else json.loads(step["quoted"]) if step["quoted"] else int(step["index"])
        for step in found
    ]


def applied(value: Any, found: list[FieldDifference]) -> Any:
    """A value with the differences put into it; what is removed goes last, from the end."""
    root = [copy.deepcopy(value)]
    removed = [one for one in found if one.kind is DifferenceKind.REMOVED]
    for one in [one for one in found if one.kind is not DifferenceKind.REMOVED] + removed[::-1]:
        holder: Any = root
        *way, last = [0, *steps(one.path)]
        for step in way:
            holder = holder[step]
        if one.kind is DifferenceKind.REMOVED:
            del holder[last]
        elif one.kind is DifferenceKind.ADDED and isinstance(holder, list):
            assert last == len(holder)
            holder.append(one.after)
        else:
            holder[last] = one.after
    return root[0]


@given(VALUES, VALUES)
def test_the_differences_turn_one_into_the_other(before: Any, after: Any) -> None:
    """R-09: applied to what was before they give what is after, and the other way round."""
    found = list(differences(before, after))
    assert canonical(applied(before, found)) == canonical(after)
    assert (found == []) == (canonical(before) == canonical(after))
    swapped = {
        DifferenceKind.ADDED: DifferenceKind.REMOVED,
        DifferenceKind.REMOVED: DifferenceKind.ADDED,
        DifferenceKind.CHANGED: DifferenceKind.CHANGED,
    }
    assert list(differences(after, before)) == [
        FieldDifference(one.path, swapped[one.kind], one.after, one.before) for one in found
    ]


@given(VALUES, VALUES)
def test_each_path_is_named_once_and_has_its_values(before: Any, after: Any) -> None:
    """R-09: no path twice; an added one has nothing before, a removed one nothing after."""
    found = list(differences(before, after))
    assert len({one.path for one in found}) == len(found)
    assert all(one.before is None for one in found if one.kind is DifferenceKind.ADDED)
    assert all(one.after is None for one in found if one.kind is DifferenceKind.REMOVED)


CASES: dict[str, tuple[Any, Any, list[tuple[str, str]]]] = {
    "same": ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, []),
    "a key": ({"a": 1}, {"a": 2}, [("a", "changed")]),
    "another kind": ({"a": {"b": 1}}, {"a": [1]}, [("a", "changed")]),
    "true is not 1": ([True], [1], [("[0]", "changed")]),
    "1.0 is 1": ([1.0], [1], []),
    "null is not nothing": ({"a": None}, {}, [("a", "removed")]),
    "a longer list": ([1], [1, 2, 3], [("[1]", "added"), ("[2]", "added")]),
    "a key that reads like a path": (
        {"a.b": 1},
        {"a": {"b": 1}},
        [("a", "added"), ('["a.b"]', "removed")],
    ),
}


@pytest.mark.parametrize(("before", "after", "expected"), CASES.values(), ids=CASES)
def test_differences_by_case(before: Any, after: Any, expected: list[tuple[str, str]]) -> None:
    """R-09: mappings by key, lists by place, everything else whole."""
    assert [(one.path, one.kind.value) for one in differences(before, after)] == expected
