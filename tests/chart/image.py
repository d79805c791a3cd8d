"""The image without a container engine: the Dockerfile is parsed, and its first stage and its user are applied here."""

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
"""Folders of the first stage, which are moved below another folder here."""


@dataclass
class Stage:
    """One build stage of the Dockerfile: its base image and its steps as (instruction, argument)."""

    base: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        return [argument for name, argument in self.steps if name == instruction]

    def single(self, instruction: str) -> str:
        [argument] = self.all(instruction)
        return argument


def stages() -> list[Stage]:
    """Return the stages of the Dockerfile."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    parsed: list[Stage] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        instruction, _, argument = line.partition(" ")
        if instruction == "FROM":
            parsed.append(Stage(argument))
        else:
            parsed[-1].steps.append((instruction, argument.strip()))
    return parsed


def build_program(folder: Path) -> Path:
    """Carry out the first stage below a folder and return the folder of the program.

    Dependencies are not installed again; the packages of this interpreter are used instead.
    """
    build = stages()[0]
    for argument in build.all("COPY"):
        *sources, target = argument.split()
        for source in sources:
            place = folder / "source" / target / ("" if target == "./" else ".")
            _copy(ROOT / source, place / source if target == "./" else place)
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # With the checkout on PYTHONPATH pip would regard the project as installed.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = inherited | {"PATH": paths, "PIP_NO_DEPS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment |= dict(argument.split("=", 1) for argument in build.all("ARG"))
    for command in build.all("RUN"):
        shell = ["sh", "-eu", "-c", _with_local_paths(command, folder)]
        subprocess.run(shell, cwd=folder / "source", env=environment, check=True, timeout=PATIENCE)
    program = folder / "opt/triggerctl"
    [packages] = program.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return program


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def _with_local_paths(command: str, folder: Path) -> str:
    for place in PLACES:
        command = re.sub(rf"(?<![\w.]){place}\b", f"{folder}{place}", command)
    return command


def as_image_user() -> list[str]:
    """Return the command prefix that runs a command as the image's user.

    That user may read everything here, as it may in the image. Without root rights the prefix is empty.
    """
    if os.geteuid() != 0:
        return []
    sets = [f"--{name}=-all,+dac_read_search" for name in ("inh-caps", "ambient-caps", "bounding-set")]
    return ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", *sets]
