"""The secret values that an attempt was handed: a private file beside its folder, as long as the attempt lasts.

Whoever adopts the attempt hides what it was given, not what the sources hold by then.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from reconcile.work import folders

_ENDING = ".secrets"


def keep(folder: Path, values: Iterable[str]) -> None:
    """Written before the attempt is started; none is kept where there are no values. Raises OSError."""
    forget(folder)
    if given := sorted(values):
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folders.write_new(_file(folder), json.dumps(given))


def recall(folder: Path) -> list[str]:
    """What was kept for the attempt of a folder, nothing when that was cut short: then it was not started either."""
    try:
        values: list[str] = json.loads(folders.read(_file(folder)) or "[]")
    except ValueError:
        return []
    return values


def forget(folder: Path) -> None:
    """The attempt is over."""
    _file(folder).unlink(missing_ok=True)


def left(root: Path) -> Iterator[Path]:
    """The folders of attempts for which something is kept."""
    return (path.with_name(path.name.removesuffix(_ENDING)) for path in root.glob(f"*{_ENDING}"))


def _file(folder: Path) -> Path:
    return folder.with_name(folder.name + _ENDING)
