"""A folder of manifests: every YAML and JSON file below it, judged as a whole before anything is asked or changed."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.cli import files
from controller.settings import OF_FOLDERS, Settings
from reconcile.decide import changes
from reconcile.report.plan import Declared, twice
from reconcile.triggers.tasks import launcher_faults
from revisions.errors import Fault, Invalid, TriggerctlError
from revisions.ids import name_faults
from revisions.spec import documents
from revisions.spec import manifest as manifests
from revisions.spec.calendar import CalendarManifest
from revisions.spec.manifest import Manifest
from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest

SUFFIXES = frozenset({".yaml", ".yml", ".json"})
SETTINGS = "triggerctl.yaml"
"""The file in the folder's root that is about the folder, not a manifest."""


@dataclass(frozen=True, slots=True)
class Folder:
    """What a folder says; `origin` is the name it gives itself, by which its triggers are known (R-22)."""

    path: str
    origin: str | None
    declared: tuple[Declared, ...]

    @property
    def has_triggers(self) -> bool:
        return any(isinstance(one.manifest, TriggerManifest) for one in self.declared)


def read(name: str) -> Folder:
    """The manifests below a folder, by path, hidden files and folders left out.

    Raises Invalid with the faults of all files at once, each with its file and the document's place in it.
    """
    root = Path(name)
    if not root.is_dir():
        hint = "deploy a single file with `triggerctl deploy`" if root.exists() else "name the folder of your manifests"
        raise Invalid.at(name, "is not a folder" if root.exists() else "there is no such folder", hint)
    walk = _Walk(root)
    declared: list[Declared] = []
    faults = walk.faults
    origin = None
    for path in walk.files:
        if path == root / SETTINGS:
            origin = _origin(path, faults)
        else:
            declared += _declared(path, faults)
    faults += twice(declared)
    if faults:
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)
    return Folder(name, origin, tuple(declared))


class _Walk:
    """The files below a folder, each real file once, so that links may go round in it, but never out of it."""

    def __init__(self, root: Path) -> None:
        self.files: list[Path] = []
        self.faults: list[Fault] = []
        self._real_root = root.resolve()
        self._seen = {self._real_root}
        self._enter(root)

    def _enter(self, folder: Path) -> None:
        try:
            entries = sorted(folder.iterdir())
        except OSError as error:
            self._refuse(folder, f"cannot be read: {error.strerror}", "make it readable, or move it out of the folder")
            return
        for entry in entries:
            if not entry.name.startswith("."):
                self._take(entry)

    def _take(self, entry: Path) -> None:
        wanted = entry.suffix in SUFFIXES
        try:
            real = entry.resolve(strict=True)
        except (OSError, RuntimeError):
            if wanted or not entry.suffix:
                self._refuse(entry, "is a link that leads nowhere", "mend the link, or remove it")
            return
        if real in self._seen or not (wanted or real.is_dir()):
            return
        self._seen.add(real)
        if not real.is_relative_to(self._real_root):
            self._refuse(entry, f"is a link out of the folder, to {real}", "put a copy into the folder")
        elif real.is_dir():
            self._enter(entry)
        elif real.is_file():
            self.files.append(entry)
        else:
            self._refuse(entry, "is no ordinary file", "move it out of the folder")

    def _refuse(self, path: Path, message: str, hint: str) -> None:
        self.faults.append(Fault(str(path), message, hint))


def _declared(path: Path, faults: list[Fault]) -> Iterator[Declared]:
    """The good documents of a file; what is wrong with the others goes to the faults."""
    found = _documents(path, faults)
    for number, (line, document) in enumerate(found, 1):
        place = f"{path}, document {number}, line {line}" if len(found) > 1 else str(path)
        try:
            manifest = manifests.read(document)
            wrong = _faults(manifest)
        except Invalid as error:
            wrong = list(error.errors)
        faults += [Fault(f"{place}: {fault.path}", fault.message, fault.hint) for fault in wrong]
        if not wrong:
            yield Declared(place, document, manifest)


def _faults(manifest: Manifest) -> list[Fault]:
    """What a registration or a deploy would refuse by itself."""
    match manifest:
        case TaskManifest():
            return launcher_faults(manifest)
        case CalendarManifest():
            return []
        case TriggerManifest():
            return changes.faults(manifest)


def _documents(path: Path, faults: list[Fault]) -> list[tuple[int, Any]]:
    try:
        return documents.placed(files.text(str(path)), str(path))
    except TriggerctlError as error:
        why = error.errors[0].message if error.errors else error.detail.removeprefix(str(path)).lstrip(",: ")
        faults.append(Fault(str(path), why, "mend the file, or move it out of the folder"))
        return []


def _origin(path: Path, faults: list[Fault]) -> str | None:
    """What the folder calls itself; settings of the controller, which may stand there too, are not ours to judge."""
    found = [document for _, document in _documents(path, faults)]
    if not found:
        return None
    if len(found) > 1 or not isinstance(found[0], dict):
        faults.append(Fault(str(path), "must be one mapping", "write origin: NAME"))
        return None
    others = [str(name) for name in found[0] if name not in OF_FOLDERS and name not in Settings.model_fields]
    faults += [Fault.unknown(f"{path}: {name}", name, OF_FOLDERS, "setting of a folder") for name in others]
    if "origin" not in found[0]:
        return None
    origin = found[0]["origin"]
    if not isinstance(origin, str):
        faults.append(Fault(f"{path}: origin", f"{origin!r} is not a string", "write origin: NAME, quoted if need be"))
        return None
    faults += [Fault(f"{path}: {fault.path}", fault.message, fault.hint) for fault in name_faults("", origin=origin)]
    return origin
