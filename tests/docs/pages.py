"""The documents as tests see them: their text, code blocks, headings and links."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted((ROOT / "config" / "examples").rglob("*.md")) + sorted((ROOT / "charts").rglob("*.md"))

_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_WALKTHROUGH = re.compile(r"<!-- walkthrough -->(.*?)<!-- end of walkthrough -->", re.DOTALL)


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a language, those within lists too."""
    return [textwrap.dedent(content) for _, found, content in _BLOCK.findall(page) if found == language]


def walkthrough(page: str) -> str:
    """Everything that a reader types between the two marks."""
    return "\n".join(block for part in _WALKTHROUGH.findall(page) for block in blocks(part, "sh"))


def section(page: str, heading: str) -> str:
    """What stands below a heading, up to the next one."""
    _, _, below = page.partition(f"\n{heading}\n")
    return re.split(r"^#+ ", below, maxsplit=1, flags=re.MULTILINE)[0]


def metrics(page: str) -> set[str]:
    """The metrics that have a row in a table."""
    return set(re.findall(r"^\| `(triggerctl_\w+)", page, re.MULTILINE))


def anchors(page: str) -> set[str]:
    """What a link may point to within a page."""
    without_code = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(without_code)}


def links(page: str) -> Iterator[tuple[str, str]]:
    """(file, anchor) of every link within the repository; either may be empty."""
    for target in _LINK.findall(page):
        if "://" not in target:
            file, _, anchor = target.partition("#")
            yield file, anchor
