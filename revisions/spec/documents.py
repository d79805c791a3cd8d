"""Parser of YAML and JSON documents into plain values; values without an exact JSON form are refused (R-18)."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from itertools import islice
from typing import Any, TypeVar, cast

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, ComposerError
from ruamel.yaml.constructor import ConstructorError, SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, SequenceNode
from ruamel.yaml.resolver import VersionedResolver

from revisions.errors import Fault, Invalid, Malformed, few

LARGEST_INTEGER = 2**53 - 1
WHOLE = "input"
"""Path in a fault of the whole document, which has no name of its own."""
MOST_NODES = 100_000
DEEPEST = 100
MOST_IN_YAML = 20_000
"""Most values of one YAML document, keys included. Parsing that many takes about half a second; JSON is far faster."""


Number = TypeVar("Number", int, float)


class _Resolver(VersionedResolver):
    """YAML 1.2 without the timestamp type: instants stay strings."""

    def add_version_implicit_resolver(self, version: Any, tag: Any, regexp: re.Pattern[str], first: Any) -> None:
        if tag != "tag:yaml.org,2002:timestamp":
            super().add_version_implicit_resolver(version, tag, regexp, first)


class WrittenFloat(float):
    """Number whose text differs from its value, such as the unquoted version `1.10`, which would become 1.1 (R-18)."""

    written: str


class WrittenInt(int):
    """Whole number whose text differs from its value, such as `007`."""

    written: str


class _WithLine(SafeConstructor):
    """Constructor of (first line, document) pairs, in which numbers keep their original text."""

    _merged = 0

    def construct_yaml_float(self, node: Any) -> float:
        return _written(WrittenFloat, float(super().construct_yaml_float(node)), str(node.value))

    def construct_yaml_int(self, node: Any) -> int:
        return _written(WrittenInt, int(super().construct_yaml_int(node)), str(node.value))

    def flatten_mapping(self, node: Any) -> None:
        """Expand merges (`<<`) up to a limit; a few nested ones could otherwise fill the memory."""
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for merged in value.value if isinstance(value, SequenceNode) else [value]:
                    if isinstance(merged, MappingNode):
                        self.flatten_mapping(merged)
                        self._count(merged)
        super().flatten_mapping(node)

    def _count(self, merged: MappingNode) -> None:
        self._merged += len(merged.value)
        if self._merged > MOST_NODES:
            raise ConstructorError(None, None, "too much is merged", merged.start_mark)

    def construct_document(self, node: Any) -> tuple[int, Any]:
        return node.start_mark.line + 1, super().construct_document(node)


_WithLine.add_constructor("tag:yaml.org,2002:float", _WithLine.construct_yaml_float)
_WithLine.add_constructor("tag:yaml.org,2002:int", _WithLine.construct_yaml_int)


class _Bounded(Composer):
    """Composer that stops at the limits of a document's size and depth."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader=loader)
        self._nodes = self._depth = 0

    def compose_document(self) -> Any:
        self._nodes = 0
        return super().compose_document()

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._nodes += 1
        self._depth += 1
        if self._nodes > MOST_IN_YAML:
            self._refuse(f"more than {MOST_IN_YAML:,} values in one document; write it as JSON, or split it up")
        if self._depth > DEEPEST:
            self._refuse(f"nested more than {DEEPEST} deep; split it up")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def _refuse(self, why: str) -> None:
        raise ComposerError(problem=why, problem_mark=self.parser.peek_event().start_mark)


def _written(kind: Any, value: Number, written: str) -> Number:
    if repr(value) == written:
        return value
    number = kind(value)
    number.written = written
    return cast(Number, number)


def parse(text: str, source: str = "input") -> Any:
    """Parse a JSON text. Raises Malformed with line and column, counted from 1."""
    try:
        return json.loads(text, object_pairs_hook=_once, parse_float=_number)
    except json.JSONDecodeError as error:
        raise Malformed(f"{source}, line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        raise Malformed(f"{source}: {error}") from None


def _number(text: str) -> float:
    return _written(WrittenFloat, float(text), text)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"{name!r} stands twice in one object")
        members[name] = value
    return members


def load(text: str, source: str = "input", most: int | None = None) -> list[Any]:
    """Parse the documents of a text, at most `most` of them; empty ones are left out.

    Raises Malformed with line and column, counted from 1.
    """
    return [document for _, document in placed(text, source, most)]


def placed(text: str, source: str = "input", most: int | None = None) -> list[tuple[int, Any]]:
    """Parse the documents of a text, at most `most`, each with its first line, counted from 1; empty ones are left out.

    A text that is valid JSON is parsed as JSON. Raises Malformed.
    """
    if text.lstrip()[:1] in ("{", "["):
        try:
            document = parse(text, source)
        except Malformed:
            pass  # YAML in flow style, or an error that the YAML parser locates
        else:
            return [(text[: len(text) - len(text.lstrip())].count("\n") + 1, document)]
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _Bounded
    yaml.Constructor = _WithLine
    yaml.Resolver = _Resolver
    yaml.allow_duplicate_keys = False
    try:
        documents = [*islice(yaml.load_all(StringIO(text)), most)]
    except MarkedYAMLError as error:
        raise Malformed(_with_place(source, error)) from None
    except (YAMLError, RecursionError, ValueError) as error:
        raise Malformed(f"{source}: {str(error).splitlines()[0]}") from None
    return [(line, document) for line, document in documents if document is not None]


def _with_place(source: str, error: MarkedYAMLError) -> str:
    problem = " ".join(str(error.problem or error.context or "not valid YAML").split())
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return f"{source}: {problem}"
    return f"{source}, line {mark.line + 1}, column {mark.column + 1}: {problem}"


def check(value: Any, path: str = "") -> None:
    """Check that a value has an exact canonical JSON form. Raises Invalid with a fault per path (R-18)."""
    if _nodes(value, {}, DEEPEST) > MOST_NODES:
        raise Invalid.at(path or WHOLE, "too large, nested too deeply, or an alias of itself", "split it up")
    faults = few(replace(fault, path=fault.path or WHOLE) for fault in _faults(value, path))
    if faults:
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)


def _nodes(value: Any, sizes: dict[int, int], depth: int) -> int:
    """Return the number of values with all aliases expanded; each value is visited once, which bounds the time."""
    if not isinstance(value, dict | list):
        return 1
    if depth == 0:
        return MOST_NODES + 1
    if id(value) not in sizes:
        sizes[id(value)] = MOST_NODES + 1  # the result for a value that contains itself
        below = value.values() if isinstance(value, dict) else value
        sizes[id(value)] = 1 + sum(_nodes(item, sizes, depth - 1) for item in below)
    return sizes[id(value)]


def _faults(value: Any, path: str) -> Iterator[Fault]:
    match value:
        case bool() | None:
            return
        case int() if abs(value) > LARGEST_INTEGER:
            yield Fault(path, "integer beyond ±(2^53−1), which JSON cannot carry exactly", "write it as a string")
        case float() if not math.isfinite(value):
            yield Fault(path, "NaN and Infinity are not JSON", "write it as a string")
        case int() | float():
            return
        case str():
            if "\0" in value:
                yield Fault(path, "holds a NUL character", "remove it")
            elif any("\ud800" <= character <= "\udfff" for character in value):
                yield Fault(path, "holds half of a surrogate pair", "write the whole character")
        case list():
            for index, item in enumerate(value):
                yield from _faults(item, f"{path}[{index}]")
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    yield Fault(f"{path}.{key}", "a key must be a string", f'quote it: "{key}"')
                    continue
                yield from (Fault(path, f"a key {fault.message}", fault.hint) for fault in _faults(key, path))
                yield from _faults(item, f"{path}.{key}" if path else key)
        case _:
            yield Fault(path, f"{type(value).__name__} is not a JSON value", "write it as a string")
