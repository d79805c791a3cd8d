"""Reading of a folder of manifests: every YAML and JSON file below it, checked as a whole."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.cli import arguments
from controller.settings import Settings
from controller.settings_sources import FOLDER_KEYS
from reconcile.decide import changes
from reconcile.report.plan import Declared, twice
from reconcile.triggers.tasks import launcher_faults
from revisions.errors import Fault, Invalid, TriggerctlError
from revisions.ids import name_faults
from revisions.spec import documents, manifest
from revisions.spec.manifest import CalendarManifest, Manifest
from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest

SUFFIXES = frozenset({".yaml", ".yml", ".json"})
SETTINGS_FILE = "triggerctl.yaml"
"""File in the folder's root with the folder's own settings; it is not a manifest."""


@dataclass(frozen=True, slots=True)
class ManifestFolder:
    """Manifests of a folder. `origin` is the name that the folder gives itself and records in its triggers (R-22)."""

    path: str
    origin: str | None
    declared: tuple[Declared, ...]

    @property
    def has_triggers(self) -> bool:
        return any(isinstance(item.manifest, TriggerManifest) for item in self.declared)


def read(name: str) -> ManifestFolder:
    """Read the manifests below a folder, sorted by path, without hidden files and folders.

    Raises Invalid with the faults of all files at once, each with its file and the document's place in it.
    """
    root = Path(name)
    if not root.is_dir():
        hint = "deploy a single file with `triggerctl deploy`" if root.exists() else "name the folder of your manifests"
        raise Invalid.at(name, "is not a folder" if root.exists() else "there is no such folder", hint)
    walk = _FolderWalk(root)
    declared: list[Declared] = []
    faults = walk.faults
    origin = None
    for path in walk.files:
        if path == root / SETTINGS_FILE:
            origin = _read_origin(path, faults)
        else:
            declared += _read_manifests(path, faults)
    faults += twice(declared)
    if faults:
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
    return ManifestFolder(name, origin, tuple(declared))


class _FolderWalk:
    """Files below a folder. Links are followed, but not out of the folder, and each real file is taken once."""

    def __init__(self, root: Path) -> None:
        self.files: list[Path] = []
        self.faults: list[Fault] = []
        self._real_root = root.resolve()
        self._visited = {self._real_root}
        self._visit_folder(root)

    def _visit_folder(self, folder: Path) -> None:
        try:
            entries = sorted(folder.iterdir())
        except OSError as error:
            self._add_fault(
                folder, f"cannot be read: {error.strerror}", "make it readable, or move it out of the folder"
            )
            return
        for entry in entries:
            if not entry.name.startswith("."):
                self._visit(entry)

    def _visit(self, entry: Path) -> None:
        is_manifest = entry.suffix in SUFFIXES
        try:
            real = entry.resolve(strict=True)
        except (OSError, RuntimeError):
            if is_manifest or not entry.suffix:
                self._add_fault(entry, "is a link that leads nowhere", "fix the link, or remove it")
            return
        if real in self._visited or not (is_manifest or real.is_dir()):
            return
        self._visited.add(real)
        if not real.is_relative_to(self._real_root):
            self._add_fault(entry, f"is a link out of the folder, to {real}", "put a copy into the folder")
        elif real.is_dir():
            self._visit_folder(entry)
        elif real.is_file():
            self.files.append(entry)
        else:
            self._add_fault(entry, "is no ordinary file", "move it out of the folder")

    def _add_fault(self, path: Path, message: str, hint: str) -> None:
        self.faults.append(Fault(str(path), message, hint))


def _read_manifests(path: Path, faults: list[Fault]) -> Iterator[Declared]:
    """Yield the valid documents of a file, and add the faults of the others to `faults`."""
    loaded = _read_documents(path, faults)
    for number, (line, document) in enumerate(loaded, 1):
        place = f"{path}, document {number}, line {line}" if len(loaded) > 1 else str(path)
        try:
            parsed = manifest.read(document)
            manifest_faults = _manifest_faults(parsed)
        except Invalid as error:
            manifest_faults = list(error.errors)
        faults += [Fault(f"{place}: {fault.path}", fault.message, fault.hint) for fault in manifest_faults]
        if not manifest_faults:
            yield Declared(place, document, parsed)


def _manifest_faults(parsed: Manifest) -> list[Fault]:
    """Return the faults for which a registration or a deploy would refuse the manifest, whatever the server has."""
    match parsed:
        case TaskManifest():
            return launcher_faults(parsed)
        case CalendarManifest():
            return []
        case TriggerManifest():
            return changes.faults(parsed)


def _read_documents(path: Path, faults: list[Fault]) -> list[tuple[int, Any]]:
    """Return line and content of each document in a file; if it is unreadable, none and a fault."""
    try:
        return documents.placed(arguments.read_text(str(path)), str(path))
    except TriggerctlError as error:
        cause = error.errors[0].message if error.errors else error.detail.removeprefix(str(path)).lstrip(",: ")
        faults.append(Fault(str(path), cause, "fix the file, or move it out of the folder"))
        return []


def _read_origin(path: Path, faults: list[Fault]) -> str | None:
    """Return the folder's name from its settings file. The controller's settings may be in the same file."""
    loaded = [document for _, document in _read_documents(path, faults)]
    if not loaded:
        return None
    if len(loaded) > 1 or not isinstance(loaded[0], dict):
        faults.append(Fault(str(path), "must be one mapping", "write origin: NAME"))
        return None
    settings = loaded[0]
    unknown = [str(name) for name in settings if name not in FOLDER_KEYS and name not in Settings.model_fields]
    faults += [Fault.unknown(f"{path}: {name}", name, FOLDER_KEYS, "setting of a folder") for name in unknown]
    if "origin" not in settings:
        return None
    origin = settings["origin"]
    if not isinstance(origin, str):
        faults.append(Fault(f"{path}: origin", f"{origin!r} is not a string", "write origin: NAME, quoted if need be"))
        return None
    faults += [Fault(f"{path}: {fault.path}", fault.message, fault.hint) for fault in name_faults("", origin=origin)]
    return origin
