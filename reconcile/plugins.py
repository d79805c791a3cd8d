"""Discovery of plug-ins: each module in a plug-in folder is one, and its name is the kind."""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from reconcile.protocols import Launcher, SecretSource


@cache
def launchers() -> Mapping[str, Launcher]:
    """Return all launchers by kind. Raises TypeError for a module without `launcher`."""
    return MappingProxyType(discover("reconcile.launchers", "launcher"))


@cache
def secret_sources() -> Mapping[str, SecretSource]:
    """Return all sources of secrets by kind. Raises TypeError for a module without `source`."""
    return MappingProxyType(discover("reconcile.runs.secrets", "source"))


def launcher(kind: str) -> Launcher:
    """Return the launcher of a kind. Raises LookupError with the known kinds."""
    chosen = launchers().get(kind)
    if chosen is None:
        raise LookupError(f"no launcher {kind!r}; there are {', '.join(launchers())}")
    return chosen


def discover(package: str, attribute: str) -> dict[str, Any]:
    """Return the `attribute` of every module in a package by the module's name.

    Sub-packages and modules that begin with `_` are left out. Raises TypeError for a module without the attribute.
    """
    plugins = {}
    paths = importlib.import_module(package).__path__
    for module in sorted(pkgutil.iter_modules(paths), key=lambda module: module.name):
        if module.ispkg or module.name.startswith("_"):
            continue
        loaded = importlib.import_module(f"{package}.{module.name}")
        if not hasattr(loaded, attribute):
            raise TypeError(f"{loaded.__file__} holds no `{attribute}`")
        plugins[module.name] = getattr(loaded, attribute)
    return plugins
