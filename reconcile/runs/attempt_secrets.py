"""Secrets of attempts: looking them up, and remembering the values that an attempt was given.

The values are written to a private file beside the attempt's folder before the attempt starts, and removed when it
ends. This closes a crash window: when the controller is killed, the next one adopts the attempt and must hide the
values that it was given (X-12). Those may differ from the values that the sources hold by then.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reconcile import plugins
from reconcile.decide.authority import Sharing
from reconcile.launchers.shared import attempt_folder
from reconcile.plugins import LaunchError, SecretPlaces, SecretUnreadable
from revisions.ids import name_faults
from revisions.spec.stored import readable_task, readable_trigger
from revisions.store.claims import Claimed

_SUFFIX = ".secrets"


class SecretMissing(LaunchError):
    """No source holds the secret for this run, or its project may not use it; another attempt would end the same."""


def write(folder: Path, values: Iterable[str]) -> None:
    """Write the values for the attempt of a folder, which has not started yet. Raises OSError."""
    remove(folder)
    if listed := sorted(values):
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        attempt_folder.write_new(_file(folder), json.dumps(listed))


def read(folder: Path) -> list[str]:
    """Return the values that the attempt of a folder was given.

    A file that was cut short counts as empty: the process was killed while writing it, so the attempt never started.
    """
    try:
        values: list[str] = json.loads(attempt_folder.read(_file(folder)) or "[]")
    except ValueError:
        return []
    return values


def remove(folder: Path) -> None:
    """Remove the values of an attempt that is over."""
    _file(folder).unlink(missing_ok=True)


def folders(root: Path) -> Iterator[Path]:
    """Yield the attempt folders for which values are stored; the folders themselves may be gone."""
    return (path.with_name(path.name.removesuffix(_SUFFIX)) for path in root.glob(f"*{_SUFFIX}"))


@dataclass(frozen=True, slots=True)
class Vault:
    """Lookup of secrets in all configured sources.

    `sources` are asked in this order: each of them for `<scope>/<name>`, then each of them for `<name>`. `sharing` says
    which projects may use a scope.
    """

    sources: tuple[str, ...] = ("environment", "files")
    places: SecretPlaces = field(default_factory=SecretPlaces)
    sharing: Sharing = field(default_factory=Sharing)

    def values(self, claimed: Claimed) -> dict[str, str]:
        """Return the value of each secret that the run's task names.

        Raises SecretMissing when a secret is missing or its scope is not for the run's project, and LaunchError when a
        source cannot be read. The messages name the places that were searched, never a value.
        """
        scope, names = _scope(claimed), _names(claimed)
        if names and (fault := self.sharing.fault(scope, claimed.run.project)):
            raise SecretMissing(f"secret {_label(scope, names[0])}: {fault.message}; {fault.hint}")
        return {name: self._value(scope, name) for name in names}

    def readable_values(self, claimed: Claimed) -> list[str]:
        """Return the values that can be read now, in order to hide them; others are left out."""
        values = []
        for name in _names(claimed):
            try:
                values.append(self._value(_scope(claimed), name))
            except LaunchError:
                continue
        return values

    def _value(self, scope: str | None, name: str) -> str:
        for fault in name_faults("", secret=name, **({"secret_scope": scope} if scope is not None else {})):
            raise SecretMissing(f"secret {name!r} is not looked for: {fault.message}; {fault.hint}")
        searched = []
        for searched_scope in dict.fromkeys((scope, None)):
            for kind in self.sources:
                source = plugins.secret_sources()[kind]
                try:
                    value = source.read(self.places, searched_scope, name)
                except SecretUnreadable as error:
                    raise LaunchError(f"secret {_label(scope, name)}: {kind}: {error}") from None
                if value:
                    return value
                searched.append(f"{kind} ({source.place(self.places, searched_scope, name)})")
        raise SecretMissing(f"secret {_label(scope, name)} is missing: looked in {', '.join(searched)}")


def _file(folder: Path) -> Path:
    return folder.with_name(folder.name + _SUFFIX)


def _label(scope: str | None, name: str) -> str:
    return f"{name} (scope {scope})" if scope else f"{name} (no scope)"


def _names(claimed: Claimed) -> Sequence[str]:
    return readable_task(claimed.task_spec).secrets if claimed.task_spec else ()


def _scope(claimed: Claimed) -> str | None:
    """Return the secret scope of the revision that made the run."""
    return readable_trigger(claimed.trigger_spec).secret_scope if claimed.trigger_spec else None
