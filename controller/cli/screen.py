"""What a command answers, on standard output alone: a table for people, JSON or YAML for programs."""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import Any

from controller.cli.session import Output, Session

Columns = Mapping[str, str | Callable[[Any], Any]]
"""Heading → the item's key (dots go into it), or a function of the item."""

GAP = 2
"""What stands between two columns."""
SHORT = 27
"""A column that is no wider, such as one of times, is not squeezed below its longest word."""
NARROWEST = 10
"""What that must leave to each of the others."""
_FRACTION = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z$")
"""Of a second: for programs, not for tables."""
_TIME = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d\S*)$")


def rows(session: Session, answer: Mapping[str, Any], columns: Columns) -> None:
    """A list, as it came or as a table; that it was cut off is said beside it."""
    if session.output is not Output.table:
        document(session, answer)
        return
    table([list(columns), *([cell(_pick(item, what)) for what in columns.values()] for item in answer["items"])])
    if answer.get("next_cursor"):
        note(f"there is more: go on with --cursor {answer['next_cursor']}, or take more with --limit")


def facts(session: Session, answer: Mapping[str, Any], names: Columns | None = None) -> None:
    """One thing, as it came or as a line for each fact that says something; blocks stand below their name as YAML."""
    if session.output is not Output.table:
        document(session, answer)
        return
    picked = [(name, _pick(answer, what)) for name, what in (names or {name: name for name in answer}).items()]
    pairs = [(name, value) for name, value in picked if value not in (None, "", [], {})]
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        if isinstance(value, dict):
            write(f"{name}:\n" + "".join(f"  {printable(line)}\n" for line in _yaml(value).splitlines()))
        else:
            write(f"{name.ljust(width)}  {cell(value)}".rstrip() + "\n")


def document(session: Session, answer: Any) -> None:
    """The answer in the API's own shape."""
    write(_yaml(answer) if session.output is Output.yaml else _json(answer) + "\n")


def table(lines: Sequence[Sequence[str]], styles: Sequence[str] = ()) -> None:
    """Rows below headings: fitted to a terminal by folding, never cut; plain and one line each in a pipe.

    `styles` are the rows' colours in a terminal.
    """
    if sys.stdout.isatty():
        _terminal(lines, styles or [""] * (len(lines) - 1))
        return
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))]
    for line in lines:
        write("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n")


def line(text: str, style: str = "", *, sign: str = "", indent: int = 0) -> None:
    """A line behind its sign; in a terminal coloured, and folded so that what follows stands below its beginning."""
    body = printable(text)
    lead = f"{' ' * indent}{sign} " if sign else " " * indent
    if not (body and sys.stdout.isatty()):
        write(f"{lead}{body}".rstrip() + "\n")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    row = Table.grid()
    if lead:
        row.add_column(no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row(*([Text(lead, style)] if lead else []), Text(body, style))
    Console(highlight=False).print(row)


def write(text: str) -> None:
    """To standard output, whatever its encoding can hold."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def note(text: str) -> None:
    """To standard error: for people, beside the answer."""
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    sys.stderr.write(printable(text).encode(encoding, "backslashreplace").decode(encoding) + "\n")


def warn(answer: Mapping[str, Any], of: object = None) -> None:
    """What an answer warns of, to standard error; `of` is what it is about, where several things are answered."""
    for warning in answer.get("warnings", ()):
        note(f"warning: {of}: {warning}" if of else f"warning: {warning}")


def printable(text: str) -> str:
    """Without what moves a terminal's cursor: names and errors come from strangers."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def _terminal(lines: Sequence[Sequence[str]], styles: Sequence[str]) -> None:
    """Where it is too narrow, times stand in two lines and short columns as narrow as their words; the rest folds.

    Of the rest the first, which is a name, is the last to be squeezed.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    room = console.width - GAP * (len(lines[0]) - 1)
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    fixed: list[int | None] = [None] * len(widths)
    if sum(widths) > room:
        lines = [[_TIME.sub(r"\1 \2", text) for text in row] for row in lines]
        words = [max(cell_len(word) for text in column for word in text.split()) for column in zip(*lines, strict=True)]
        narrow = [word if width <= SHORT else None for word, width in zip(words, widths, strict=True)]
        spare = room - sum(width or NARROWEST for width in narrow)
        if spare >= 0:
            fixed = narrow
            if spare < (SHORT - NARROWEST) * narrow.count(None):
                fixed[narrow.index(None)] = NARROWEST + min(spare, SHORT - NARROWEST)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for heading, width in zip(lines[0], fixed, strict=True):
        shown.add_column(heading, overflow="fold", width=width)
    for row, style in zip(lines[1:], styles, strict=True):
        shown.add_row(*map(Text, row), style=style)
    console.print(shown)


def _pick(item: Any, what: str | Callable[[Any], Any]) -> Any:
    if callable(what):
        return what(item)
    for part in what.split("."):
        item = item[part]
    return item


def cell(value: Any) -> str:
    """A value in a table, in one line."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(map(cell, value)) or "-"
        case dict():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return _FRACTION.sub(r"\1Z", printable(str(value))) or "-"


def many(count: int, thing: str) -> str:
    """A number of things, in words that agree."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _json(value: Any) -> str:
    """For programs, and harmless on a terminal all the same: what is not printable can only stand in strings."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def _yaml(value: Any) -> str:
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.width = 1_000_000
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel types it as None
    out = StringIO()
    yaml.dump(value, out)
    return out.getvalue().removesuffix("...\n")
