"""Sources of settings: the settings file, and variables of the environment that are mistyped."""

import difflib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from revisions.errors import Fault, Invalid
from revisions.spec import documents

PREFIX = "TRIGGERCTL_"
DEFAULT_FILES = ("config/triggerctl.yaml", "triggerctl.yaml")
"""Settings files in the working directory, the first of which is read when TRIGGERCTL_CONFIG names none."""
OTHER_VARIABLES = frozenset({"CONFIG", "SERVER", "TOKEN", "DEBUG", "RUN_ID", "INPUT", "OUTPUT"})
"""Variables with the prefix that are not settings: the command line and tasks read them."""
FOLDER_KEYS = frozenset({"origin"})
"""Keys of the file that are not settings: they belong to `triggerctl apply` of the folder that the file is in."""


def settings_file() -> Path | None:
    """Return the settings file that is read, if there is one."""
    named = os.environ.get(f"{PREFIX}CONFIG")
    if named:
        return Path(named)
    return next((Path(name) for name in DEFAULT_FILES if Path(name).is_file()), None)


def read_settings_file(known: Iterable[str]) -> dict[str, Any]:
    """Return the settings in the file. Raises Malformed if it is not YAML, Invalid for a key that is not known."""
    path = settings_file()
    if path is None:
        return {}
    try:
        loaded = documents.load(path.read_text("utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        hint = "name a file that can be read"
        raise Invalid.at(f"{PREFIX}CONFIG", f"{path} cannot be read: {cause}", hint) from None
    if not loaded:
        return {}
    if len(loaded) > 1 or not isinstance(loaded[0], dict):
        raise Invalid.at(str(path), "must be one mapping of settings", "write name: value lines")
    names = set(known)
    settings = {name: value for name, value in loaded[0].items() if name not in FOLDER_KEYS}
    faults = [Fault.unknown(f"{path}: {name}", str(name), names, "setting") for name in settings if name not in names]
    if faults:
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
    return settings


def mistyped_variables(known: Iterable[str]) -> dict[str, str]:
    """Return variables of the environment whose name is close to a setting's, with the variable that was meant.

    They have no effect, although whoever set them expects one. Variables that resemble no setting are left out, because
    Kubernetes creates some from the name of a Service.
    """
    expected = {name.upper() for name in known} | OTHER_VARIABLES
    present = {name.removeprefix(PREFIX) for name in os.environ if name.startswith(PREFIX)}
    mistyped = {}
    for name in sorted(present - expected):
        for similar in difflib.get_close_matches(name, sorted(expected), 1, cutoff=0.8):
            mistyped[f"{PREFIX}{name}"] = f"{PREFIX}{similar}"
    return mistyped
