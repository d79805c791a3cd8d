"""Secret source `files`: one file per value below a folder, as Kubernetes mounts secrets."""

import os
import stat
from pathlib import Path

from reconcile.plugins import SecretPlaces, SecretSource, SecretUnreadable

LARGEST = 64 * 1024
"""Largest value, bytes."""


class FilesSource:
    """Reads `<folder>/<name>` without a scope, and `<folder>/<scope>/<name>` with one.

    A line break at the very end does not belong to the value.
    """

    def place(self, places: SecretPlaces, scope: str | None, name: str) -> str:
        path = _path(places, scope, name)
        return str(path) if path else "no folder, for secrets_dir is not set"

    def read(self, places: SecretPlaces, scope: str | None, name: str) -> str | None:
        path = _path(places, scope, name)
        if path is None:
            return None
        try:
            # Without blocking: a pipe in the file's place would wait for a writer.
            with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise SecretUnreadable(f"{path} is not a regular file")
                data = file.read(LARGEST + 1)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise SecretUnreadable(f"{path} cannot be read: {error.strerror}") from None
        if len(data) > LARGEST:
            raise SecretUnreadable(f"{path} is larger than {LARGEST} bytes")
        try:
            return data.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise SecretUnreadable(f"{path} is not UTF-8") from None


def _path(places: SecretPlaces, scope: str | None, name: str) -> Path | None:
    return places.folder / (scope or "") / name if places.folder else None


source: SecretSource = FilesSource()
