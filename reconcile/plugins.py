"""Plug-ins are found by lying in their folder: a module's name is the kind it serves."""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType, ModuleType
from typing import Any

from reconcile import launchers as _launchers
from reconcile.protocols import Launcher, SecretSource
from reconcile.runs import secrets as _secrets


@cache
def launchers() -> Mapping[str, Launcher]:
    """Every launcher by its kind. Raises TypeError for a module in the folder that holds no `launcher`."""
    return MappingProxyType(_discover(_launchers, "launcher"))


@cache
def secret_sources() -> Mapping[str, SecretSource]:
    """Every source of secrets by its kind. Raises TypeError for a module in the folder that holds no `source`."""
    return MappingProxyType(_discover(_secrets, "source"))


def launcher(kind: str) -> Launcher:
    """The launcher of a kind. Raises LookupError naming those that exist."""
    found = launchers().get(kind)
    if found is None:
        raise LookupError(f"no launcher {kind!r}; there are {', '.join(launchers())}")
    return found


def _discover(package: ModuleType, attribute: str) -> dict[str, Any]:
    """Modules that begin with `_` belong to their neighbours and are passed over."""
    found = {}
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
        if module.name.startswith("_"):
            continue
        loaded = importlib.import_module(f"{package.__name__}.{module.name}")
        if not hasattr(loaded, attribute):
            raise TypeError(f"{loaded.__file__} holds no `{attribute}`")
        found[module.name] = getattr(loaded, attribute)
    return found
