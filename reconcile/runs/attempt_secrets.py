"""The secret values that an attempt was handed: a private file beside its folder, as long as the attempt lasts.

Whoever adopts the attempt hides what it was given, not what the sources hold by then.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reconcile import plugins
from reconcile.decide.authority import Sharing
from reconcile.launchers.shared import attempt_folder
from reconcile.protocols import LaunchError, SecretPlaces, SecretUnreadable
from revisions.ids import name_faults
from revisions.spec.stored import readable_task, readable_trigger
from revisions.store.claims import Claimed

_ENDING = ".secrets"


def keep(folder: Path, values: Iterable[str]) -> None:
    """Written before the attempt is started; none is kept where there are no values. Raises OSError."""
    forget(folder)
    if given := sorted(values):
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        attempt_folder.write_new(_file(folder), json.dumps(given))


def recall(folder: Path) -> list[str]:
    """What was kept for the attempt of a folder, nothing when that was cut short: then it was not started either."""
    try:
        values: list[str] = json.loads(attempt_folder.read(_file(folder)) or "[]")
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


class SecretMissing(LaunchError):
    """There is none for this run, so that another attempt would only find the same."""


@dataclass(frozen=True, slots=True)
class Vault:
    """`sources` are asked in this order: all of them for `<scope>/<name>`, then all of them for `<name>`.

    `sharing`: which projects may use a scope.
    """

    sources: tuple[str, ...] = ("environment", "files")
    places: SecretPlaces = field(default_factory=SecretPlaces)
    sharing: Sharing = field(default_factory=Sharing)

    def values(self, claimed: Claimed) -> dict[str, str]:
        """The value of each secret that the run's task names.

        Raises SecretMissing where there is none and where the scope is not for the run's project, and LaunchError where
        a source cannot tell; they say where it was looked for, never a value.
        """
        scope, names = _scope(claimed), _names(claimed)
        if names and (fault := self.sharing.fault(scope, claimed.run.project)):
            raise SecretMissing(f"secret {_called(scope, names[0])}: {fault.message}; {fault.hint}")
        return {name: self._value(scope, name) for name in names}

    def known(self, claimed: Claimed) -> list[str]:
        """The values that can be found just now, for hiding them; what cannot be is left out."""
        found = []
        for name in _names(claimed):
            try:
                found.append(self._value(_scope(claimed), name))
            except LaunchError:
                continue
        return found

    def _value(self, scope: str | None, name: str) -> str:
        for fault in name_faults("", secret=name, **({"secret_scope": scope} if scope is not None else {})):
            raise SecretMissing(f"secret {name!r} is not looked for: {fault.message}; {fault.hint}")
        looked = []
        for of in dict.fromkeys((scope, None)):
            for kind in self.sources:
                source = plugins.secret_sources()[kind]
                try:
                    value = source.read(self.places, of, name)
                except SecretUnreadable as error:
                    raise LaunchError(f"secret {_called(scope, name)}: {kind}: {error}") from None
                if value:
                    return value
                looked.append(f"{kind} ({source.place(self.places, of, name)})")
        raise SecretMissing(f"secret {_called(scope, name)} is missing: looked in {', '.join(looked)}")


def _called(scope: str | None, name: str) -> str:
    return f"{name} (scope {scope})" if scope else f"{name} (no scope)"


def _names(claimed: Claimed) -> Sequence[str]:
    return readable_task(claimed.task_spec).secrets if claimed.task_spec else ()


def _scope(claimed: Claimed) -> str | None:
    """Return the scope that the revision names which made the run."""
    return readable_trigger(claimed.trigger_spec).secret_scope if claimed.trigger_spec else None
