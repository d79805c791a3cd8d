"""Installed version of triggerctl."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("triggerctl")
except PackageNotFoundError:  # run from a checkout without installation
    VERSION = "0+checkout"
