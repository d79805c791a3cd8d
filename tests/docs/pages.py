"""Parts of the documentation pages: text, code blocks, headings and links."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted((ROOT / "config" / "examples").rglob("*.md")) + sorted((ROOT / "charts").rglob("*.md"))

_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")
_NODE = re.compile(r'\["\d+ ([^"]+)"\]')
_CALL = re.compile(r"\(.*\)$")
_SOURCES = [
    path for folder in ("controller", "reconcile", "revisions") for path in sorted((ROOT / folder).rglob("*.py"))
]
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
    headings = _HEADING.findall(_FENCED.sub("", page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def missing_code(page: str) -> list[str]:
    """Return the paths, modules and names of code on a page that do not exist in the tree, quoted or in a drawing.

    A path begins at the root, in `reconcile/`, or in or beside the folder of the path before it; `<kind>` matches any
    name. Quoted text with spaces (commands, SQL) and metrics are not looked at.
    """
    words = set(re.findall(r"\w+", "".join(path.read_text(encoding="utf-8") for path in _SOURCES)))
    words |= set(re.findall(r"\w+", text("pyproject.toml")))
    folder, missing = ROOT, []
    drawings = "".join(f"\n`{node}`" for block in blocks(page, "mermaid") for node in _NODE.findall(block))
    for quoted in _CODE.findall(_FENCED.sub("", page) + drawings):
        name = _CALL.sub("", quoted)
        if " " in name or name.startswith("triggerctl_"):
            continue
        if "/" in name or name.endswith(".py"):
            pattern = re.sub(r"<\w+>", "*", name).rstrip("/")
            path = next(
                (path for base in (ROOT, ROOT / "reconcile", folder, folder.parent) for path in base.glob(pattern)),
                None,
            )
            if path is None or name.endswith("/") != path.is_dir():
                missing.append(quoted)
            else:
                folder = path if path.is_dir() else path.parent
        elif name.split(".")[0] in ("controller", "reconcile", "revisions"):
            path = ROOT / name.replace(".", "/")
            if not path.is_dir() and not path.with_suffix(".py").is_file():
                missing.append(quoted)
        elif re.fullmatch(r"[\w.]+", name) and not set(name.split(".")) <= words:
            missing.append(quoted)
    return missing


def links(page: str) -> Iterator[tuple[str, str]]:
    """Yield (file, anchor) of every link within the repository; either may be empty."""
    for target in _LINK.findall(page):
        if "://" not in target:
            file, _, anchor = target.partition("#")
            yield file, anchor
