"""Secret source `environment`: variables of the controller's own environment, which no task inherits."""

import os

from reconcile.plugins import SecretPlaces, SecretSource

PREFIX = "TRIGGERCTL_SECRET__"


class EnvironmentSource:
    """Reads `TRIGGERCTL_SECRET__<NAME>` without a scope, and `TRIGGERCTL_SECRET__<SCOPE>__<NAME>` with one.

    A scope is written in upper case with `_` for `-`. Two scopes never share a variable: a scope with `.` or `_` has
    none, and no name contains `__`.
    """

    def place(self, places: SecretPlaces, scope: str | None, name: str) -> str:
        return _variable(scope, name) or f"no variable, for {scope} is not letters, digits and -"

    def read(self, places: SecretPlaces, scope: str | None, name: str) -> str | None:
        variable = _variable(scope, name)
        return os.environ.get(variable) if variable else None


def _variable(scope: str | None, name: str) -> str | None:
    if scope is None:
        return f"{PREFIX}{name}"
    if "." in scope or "_" in scope:
        return None
    return f"{PREFIX}{scope.upper().replace('-', '_')}__{name}"


source: SecretSource = EnvironmentSource()
