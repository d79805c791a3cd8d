"""What is hidden of secret values in what tasks say."""

import json
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.decide.secret_masks import NOTHING, Mask

KEY = "s3cr3t-value"


@pytest.mark.parametrize(
    ("values", "text", "hidden"),
    [
        ([KEY], f"key={KEY}!", "key=***!"),
        ([KEY], f"{KEY}{KEY}", "***"),
        ([KEY, "s3cr3t-value-long"], "s3cr3t-value-long", "***"),
        (["abcd-1", "d-1efg"], "abcd-1efg", "***"),
        (["abc"], "abcabc", "abcabc"),
        (['say "hi"\nZürich'], json.dumps({"key": 'say "hi"\nZürich'}), '{"key": "***"}'),
        (["-----BEGIN-----\nMIIEpAIB\n-----END-----"], "line MIIEpAIB of it", "line *** of it"),
        ([], "nothing", "nothing"),
    ],
)
def test_a_value_is_hidden_wherever_it_stands(values: list[str], text: str, hidden: str) -> None:
    """X-12: twice in a row, inside another, across another, as JSON writes it, line by line; not where it is short."""
    assert Mask(values).text(text) == hidden


def test_the_beginning_of_a_value_at_a_cut_is_hidden() -> None:
    """X-12: errors quote the first characters of an answer, and a value may be cut there."""
    assert Mask([KEY]).text(f"answered 500: {KEY[:8]}", cut=True) == "answered 500: ***"
    assert Mask([KEY]).text(f"answered 500: {KEY[:3]}", cut=True) == "answered 500: s3c"


def test_an_output_keeps_its_form() -> None:
    """X-12: texts, keys and numbers that are a value; all else stays what it was."""
    output = {"a": [KEY, 1, None, True], KEY: {"n": 12345, "m": 123456}, "cost": 1.5}
    masked = {"a": ["***", 1, None, True], "***": {"n": "***", "m": 123456}, "cost": 1.5}
    assert Mask([KEY, "12345"]).value(output) == masked
    assert NOTHING.value(output) == output


def reading(log: bytes) -> Callable[[int, int], bytes]:
    return lambda at, most: log[at : at + most]


def stored(mask: Mask, text: bytes, sizes: list[int], *, limit: int = 1_000) -> bytes:
    """What is stored of a log that grows to each of these sizes and is read after each."""
    kept = b""
    for size in [*sizes, len(text)]:
        grown = text[:size]
        for _ in range(1 + len(text) // limit):
            end = min(len(grown), len(kept) + limit)
            kept += mask.log(reading(grown), len(kept), end, whole=False)
    return kept + mask.log(reading(text), len(kept), len(text), whole=True)


@pytest.mark.parametrize("size", range(len(f"a {KEY} b {KEY[:6]}{KEY}")))
def test_a_value_across_two_pieces_is_hidden(size: int) -> None:
    """X-12: wherever the log is cut; each byte keeps its place."""
    text = f"a {KEY} b {KEY[:6]}{KEY}".encode()
    expected = text.replace(KEY.encode(), b"*" * len(KEY))
    assert stored(Mask([KEY]), text, [size]) == expected


@given(
    words=st.lists(st.sampled_from([KEY, KEY[:5], "aaaa", "aaab", "aa", "x", "\n"]), max_size=8),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    limit=st.integers(1, 20),
)
def test_no_value_is_ever_stored(words: list[str], cuts: list[int], limit: int) -> None:
    """X-12: whatever is printed when, and however little is taken at once."""
    text = "".join(words).encode()
    kept = stored(Mask([KEY, "aaaab"]), text, sorted(min(cut, len(text)) for cut in cuts), limit=limit)
    assert len(kept) == len(text)
    assert KEY.encode() not in kept
    assert b"aaaab" not in kept
    assert all(before in (after, ord("*")) for before, after in zip(kept, text, strict=True))


def test_a_range_in_the_middle_is_read_with_what_surrounds_it() -> None:
    """X-12: the tail of a long log may begin within a value."""
    text = f"xx{KEY}yy".encode()
    for start, end in pairwise([0, 5, 9, len(text)]):
        piece = Mask([KEY]).log(lambda at, most: text[at : at + most], start, end, whole=False)
        assert piece == text.replace(KEY.encode(), b"*" * len(KEY))[start:end]
