"""Output of commands: answers on standard output as table, JSON or YAML; notes and progress on standard error."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Any

from controller.cli.session import OutputFormat, Session

Columns = Mapping[str, str | Callable[[Any], Any]]
"""Heading → key of the item (dots descend into it), or a function of the item."""
ShowProgress = Callable[[int, int | None], None]
"""Takes the number of steps done, and of all steps if known."""

COLUMN_GAP = 2
SHORT_COLUMN = 27
"""A column up to this width, such as one of times, is never squeezed below its longest word."""
MIN_COLUMN = 10
"""Width that must be left for each of the other columns."""
_FRACTION = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z$")
_TIME = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d\S*)$")


def print_list(session: Session, answer: Mapping[str, Any], columns: Columns) -> None:
    """Print a list in the format asked for; if it was cut off, note on standard error how to continue."""
    if session.output is not OutputFormat.table:
        print_document(session, answer)
        return
    rows = [[format_cell(_pick(item, source)) for source in columns.values()] for item in answer["items"]]
    print_table([list(columns), *rows])
    if answer.get("next_cursor"):
        write_note(f"there is more: go on with --cursor {answer['next_cursor']}, or take more with --limit")


def print_fields(session: Session, answer: Mapping[str, Any], fields: Columns | None = None) -> None:
    """Print one object in the format asked for.

    As a table it has a line per field, without the empty ones; mappings follow their name as YAML.
    """
    if session.output is not OutputFormat.table:
        print_document(session, answer)
        return
    picked = [(name, _pick(answer, source)) for name, source in (fields or {name: name for name in answer}).items()]
    pairs = [(name, value) for name, value in picked if value not in (None, "", [], {})]
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        if isinstance(value, dict):
            write(f"{name}:\n" + "".join(f"  {escape_unprintable(line)}\n" for line in _yaml(value).splitlines()))
        else:
            write(f"{name.ljust(width)}  {format_cell(value)}".rstrip() + "\n")


def print_document(session: Session, answer: Any) -> None:
    """Print the answer as JSON or YAML, in the API's own shape."""
    write(_yaml(answer) if session.output is OutputFormat.yaml else _json(answer) + "\n")


def print_table(lines: Sequence[Sequence[str]], styles: Sequence[str] = ()) -> None:
    """Print rows below headings: fitted to a terminal by wrapping, never cut; in a pipe plain, one line per row.

    `styles` are the colours of the rows in a terminal.
    """
    if sys.stdout.isatty():
        _print_terminal_table(lines, styles or [""] * (len(lines) - 1))
        return
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))]
    for line in lines:
        write("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n")


def print_line(text: str, style: str = "", *, sign: str = "", indent: int = 0) -> None:
    """Print a line behind its sign; in a terminal coloured, and wrapped lines are aligned with the text's start."""
    body = escape_unprintable(text)
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
    """Write to standard output, escaping the characters that its encoding cannot hold."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def write_note(text: str) -> None:
    """Write a line for people to standard error."""
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    sys.stderr.write(escape_unprintable(text).encode(encoding, "backslashreplace").decode(encoding) + "\n")


def write_warnings(answer: Mapping[str, Any], subject: object = None) -> None:
    """Write an answer's warnings to standard error, behind the `subject` if there are several answers."""
    for warning in answer.get("warnings", ()):
        write_note(f"warning: {subject}: {warning}" if subject else f"warning: {warning}")


@contextmanager
def progress_bar(title: str) -> Iterator[ShowProgress]:
    """Show a progress bar on standard error; nothing if that is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def format_cell(value: Any) -> str:
    """Return a value as one line of text for a table. Fractions of seconds are left out."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(map(format_cell, value)) or "-"
        case dict():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return _FRACTION.sub(r"\1Z", escape_unprintable(str(value))) or "-"


def count_of(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 run` or `2,000 runs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def escape_unprintable(text: str) -> str:
    """Escape what could move a terminal's cursor, for names and errors may come from other people."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def _print_terminal_table(lines: Sequence[Sequence[str]], styles: Sequence[str]) -> None:
    """Fit a table to the terminal's width.

    If it is too wide, times break into two lines, short columns shrink to their longest word, and the others wrap. The
    first of those, which is a name, is squeezed last.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    room = console.width - COLUMN_GAP * (len(lines[0]) - 1)
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    fixed: list[int | None] = [None] * len(widths)
    if sum(widths) > room:
        lines = [[_TIME.sub(r"\1 \2", text) for text in row] for row in lines]
        words = [max(cell_len(word) for text in column for word in text.split()) for column in zip(*lines, strict=True)]
        narrow = [word if width <= SHORT_COLUMN else None for word, width in zip(words, widths, strict=True)]
        spare = room - sum(width or MIN_COLUMN for width in narrow)
        if spare >= 0:
            fixed = narrow
            if spare < (SHORT_COLUMN - MIN_COLUMN) * narrow.count(None):
                fixed[narrow.index(None)] = MIN_COLUMN + min(spare, SHORT_COLUMN - MIN_COLUMN)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, width in zip(lines[0], fixed, strict=True):
        table.add_column(heading, overflow="fold", width=width)
    for row, style in zip(lines[1:], styles, strict=True):
        table.add_row(*map(Text, row), style=style)
    console.print(table)


def _pick(item: Any, source: str | Callable[[Any], Any]) -> Any:
    if callable(source):
        return source(item)
    for key in source.split("."):
        item = item[key]
    return item


def _json(value: Any) -> str:
    """Return JSON that is harmless on a terminal: unprintable characters can only be in strings, and are escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else _json_escape(c) for c in text)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def _yaml(value: Any) -> str:
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.width = 1_000_000
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel types it as None
    stream = StringIO()
    yaml.dump(value, stream)
    return stream.getvalue().removesuffix("...\n")
