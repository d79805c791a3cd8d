"""The version that is installed."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("triggerctl")
except PackageNotFoundError:  # run from a checkout that was not installed
    VERSION = "0+checkout"
