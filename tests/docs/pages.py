"""Parts of the documentation pages: text, code blocks, headings and links."""

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
    """Return the fenced code blocks of a language, including those within lists."""
    return [
        textwrap.dedent(content) for _, block_language, content in _BLOCK.findall(page) if block_language == language
    ]


def walkthrough(page: str) -> str:
    """Return everything that a reader types between the walkthrough marks."""
    return "\n".join(block for part in _WALKTHROUGH.findall(page) for block in blocks(part, "sh"))


def section(page: str, heading: str) -> str:
    """Return the text below a heading, up to the next heading."""
    _, _, below = page.partition(f"\n{heading}\n")
    return re.split(r"^#+ ", below, maxsplit=1, flags=re.MULTILINE)[0]


def metrics(page: str) -> set[str]:
    """Return the metrics that have a row in a table."""
    return set(re.findall(r"^\| `(triggerctl_\w+)", page, re.MULTILINE))


def anchors(page: str) -> set[str]:
    """Return the anchors of the page's headings."""
    without_code = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(without_code)}


def links(page: str) -> Iterator[tuple[str, str]]:
    """Yield (file, anchor) of every link within the repository; either may be empty."""
    for target in _LINK.findall(page):
        if "://" not in target:
            file, _, anchor = target.partition("#")
            yield file, anchor
