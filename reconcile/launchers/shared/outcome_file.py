"""How an attempt ended, as a file in its folder: whole or not at all, and never a second time."""

import json
import os
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from reconcile.launchers.shared import attempt_folder
from reconcile.protocols import Failed, Lost, Succeeded


def record(folder: Path, end: Succeeded | Failed | Lost) -> None:
    """Whoever comes first is right. Raises OSError when it cannot be written."""
    error = None if isinstance(end, Succeeded) else end.error
    output = None if isinstance(end, Lost) else end.output
    with NamedTemporaryFile("w", dir=folder, encoding="utf-8") as file:
        json.dump({"error": error, "output": output, "lost": isinstance(end, Lost)}, file)
        file.flush()
        with suppress(FileExistsError):
            os.link(file.name, folder / "end")


def recorded(folder: Path) -> Succeeded | Failed | Lost | None:
    """What `record` wrote first; None when it did not yet."""
    text = attempt_folder.read(folder / "end")
    if not text:
        return None
    end: dict[str, Any] = json.loads(text)
    if end["error"] is None:
        return Succeeded(end["output"])
    return Lost(end["error"]) if end.get("lost") else Failed(end["error"], end["output"])
