"""Masking of secret values in the output of tasks before it is stored."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, AnyStr, Final

SHORTEST: Final = 4
"""Minimum length of a masked value in characters; shorter ones would hide unrelated text."""
HIDDEN: Final = "***"


class Mask:
    """Hides values as written, JSON-encoded and line by line; false when there is nothing to hide."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = frozenset(values)
        self._forms = sorted({form for value in self._values for form in _forms(value)}, key=len, reverse=True)
        self._encoded = [form.encode("utf-8", "surrogatepass") for form in self._forms]

    def __bool__(self) -> bool:
        return bool(self._forms)

    @property
    def reach(self) -> int:
        """Number of bytes after a part of a log that are needed to detect a value across its end."""
        return len(self._encoded[0]) - 1 if self._encoded else 0

    def text(self, text: str, *, cut: bool = False) -> str:
        """Replace each value by `***`; with `cut`, also the beginning of a value at the end of the text."""
        kept, last = [], 0
        unfinished = _unfinished(text, self._forms, SHORTEST) if cut else []
        for start, end in (*_spans(text, self._forms), *unfinished):
            if start >= last:
                kept += [text[last:start], HIDDEN]
            last = max(last, end)
        return "".join((*kept, text[last:]))

    def value(self, value: Any) -> Any:
        """Mask a JSON value: all strings, keys included, and numbers that equal a secret."""
        match value:
            case str():
                return self.text(value)
            case bool() | None:
                return value
            case int() | float():
                return HIDDEN if json.dumps(value) in self._forms else value
            case Mapping():
                return {self.value(str(key)): self.value(item) for key, item in value.items()}
            case _:
                return [self.value(item) for item in value]

    def log(self, read: Callable[[int, int], bytes], start: int, end: int, *, whole: bool) -> bytes:
        """Bytes [start, end) of a log with `*` for each byte of a value, so that positions stay what they are.

        `read(start, limit)` answers the log as it is: beyond both ends, too, for a value may lie across them. What may
        be the beginning of a value is left for later, unless the log is `whole` and nothing follows.
        """
        if not self._encoded:
            return read(start, end - start)
        beyond = self.reach
        first = max(0, start - beyond)
        data = bytearray(read(first, end + beyond - first))
        found = _spans(bytes(data), self._encoded)
        if len(data) < end + beyond - first:
            unfinished = _unfinished(bytes(data), self._encoded, SHORTEST if whole else 1)
            if unfinished and not whole:
                end = min(end, max(start, first + unfinished[0][0]))
            found += unfinished
        for begin, stop in found:
            data[begin:stop] = b"*" * (stop - begin)
        return bytes(data[start - first : end - first])


NOTHING: Final = Mask()


def _forms(value: str) -> Iterable[str]:
    for part in {value, value.strip(), *map(str.strip, value.splitlines())}:
        if len(part) >= SHORTEST:
            yield part
            yield json.dumps(part)[1:-1]
            yield json.dumps(part, ensure_ascii=False)[1:-1]


def _spans(text: AnyStr, forms: Sequence[AnyStr]) -> list[tuple[int, int]]:
    """Return the positions of the values in order, overlapping ones merged."""
    found = []
    for form in forms:
        start = text.find(form)
        while start >= 0:
            found.append((start, start + len(form)))
            start = text.find(form, start + 1)
    joined: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _unfinished(text: AnyStr, forms: Sequence[AnyStr], shortest: int) -> list[tuple[int, int]]:
    """Return the position of the longest beginning of a value at the end of the text, at least `shortest` long."""
    longest = shortest - 1
    for form in forms:
        for size in range(min(len(form) - 1, len(text)), longest, -1):
            if text.endswith(form[:size]):
                longest = size
                break
    return [(len(text) - longest, len(text))] if longest >= shortest else []
