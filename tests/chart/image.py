"""The image without an engine: the Dockerfile read, its first stage carried out, its user taken on."""

import os
import re
import shutil
import site
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
UID = 10001
PLACES = ("/source", "/wheels", "/opt/triggerctl")
"""The folders of the first stage, which lie elsewhere here."""


@dataclass
class Stage:
    """What stands between one FROM and the next: (instruction, argument), as written."""

    base: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        return [argument for name, argument in self.steps if name == instruction]

    def one(self, instruction: str) -> str:
        [argument] = self.all(instruction)
        return argument


def stages() -> list[Stage]:
    """The Dockerfile's."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found: list[Stage] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        instruction, _, argument = line.partition(" ")
        if instruction == "FROM":
            found.append(Stage(argument))
        else:
            found[-1].steps.append((instruction, argument.strip()))
    return found


def built(folder: Path) -> Path:
    """Carries out the first stage below a folder and answers where the program lies.

    Dependencies are not installed again: those of this interpreter are lent.
    """
    build = stages()[0]
    for argument in build.all("COPY"):
        *sources, target = argument.split()
        for source in sources:
            place = folder / "source" / target / ("" if target == "./" else ".")
            _copy(ROOT / source, place / source if target == "./" else place)
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # pip would find us there
    environment = ours | {"PATH": paths, "PIP_NO_DEPS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment |= dict(argument.split("=", 1) for argument in build.all("ARG"))
    for command in build.all("RUN"):
        shell = ["sh", "-eu", "-c", _here(command, folder)]
        subprocess.run(shell, cwd=folder / "source", env=environment, check=True, timeout=PATIENCE)
    program = folder / "opt/triggerctl"
    [packages] = program.glob("lib/python*/site-packages")
    (packages / "lent.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return program


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def _here(command: str, folder: Path) -> str:
    for place in PLACES:
        command = re.sub(rf"(?<![\w.]){place}\b", f"{folder}{place}", command)
    return command


def as_its_user() -> list[str]:
    """What goes before a command to run it as the image's user, who may read everything and write what is his.

    Nothing where we are no root: then no process of ours is one.
    """
    if os.geteuid() != 0:
        return []
    sets = [f"--{name}=-all,+dac_read_search" for name in ("inh-caps", "ambient-caps", "bounding-set")]
    return ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", *sets]
