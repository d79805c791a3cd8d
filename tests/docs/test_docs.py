"""The documentation covers the whole product, and everything in it works."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import httpx
import pytest
import typer

from controller.app import create_app
from controller.cli.main import app, global_options_first
from controller.errors import KINDS, Exit
from controller.services import Services
from controller.settings import Settings
from controller.settings_sources import PREFIX
from controller.telemetry import logs
from controller.telemetry.metrics import Metrics
from reconcile import observations
from reconcile.decide import changes
from reconcile.observations.observation import Observation
from reconcile.plugins import launchers
from revisions.errors import Invalid
from revisions.spec import documents, manifest, reading, trigger
from revisions.spec.fields import ConcurrencySpec
from revisions.spec.manifest import CalendarManifest, CalendarMetadata, CalendarSpec, Manifest
from revisions.spec.task import TaskManifest, TaskSpec
from revisions.store.database import Database
from tests.docs import pages
from tests.docs.pages import PAGES, ROOT
from tests.waiting import PATIENCE, eventually

RUNBOOKS = ROOT / "docs" / "runbooks" / "README.md"


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command below one, with the words that name it."""
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        yield path, command
    else:
        for name, inner in subcommands.items():
            yield from commands(inner, (*path, name))


ROOT_COMMAND = typer.main.get_command(app)
COMMANDS = dict(commands(ROOT_COMMAND))


def options(command: Any) -> list[str]:
    names = [name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)]
    return [name for name in names if name.startswith("-") and name != "--help"]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_and_option_is_documented(path: tuple[str, ...]) -> None:
    """U-01, U-05: cli.md has a section for each command with all its options."""
    page = pages.text("docs/cli.md")
    headings = [line for line in page.splitlines() if line.startswith("### ")]
    [heading] = [line for line in headings if re.match(rf"### `triggerctl {' '.join(path)}[ `]", line)]
    section = pages.section(page, heading)
    missing = [name for name in options(COMMANDS[path]) if not re.search(rf"`{name}[ `]", section)]
    assert missing == []


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_has_a_help_text(path: tuple[str, ...]) -> None:
    """U-01: --help explains it, not only cli.md."""
    command = COMMANDS[path]
    assert command.help
    assert [parameter.name for parameter in command.params if not parameter.help and parameter.name != "help"] == []


def test_the_help_groups_all_commands() -> None:
    """U-01: a command among thirty is found by its purpose."""
    panels = {command.rich_help_panel for command in ROOT_COMMAND.commands.values()}  # type: ignore[attr-defined]
    assert "Commands" not in panels
    assert len(panels) > 1


def test_only_existing_commands_are_documented() -> None:
    """U-05: each section of cli.md is a command."""
    named = re.findall(r"^### `triggerctl ([a-z ]+[a-z])", pages.text("docs/cli.md"), re.MULTILINE)
    assert sorted(named) == sorted(map(" ".join, COMMANDS))


def test_every_global_option_and_exit_code_is_documented() -> None:
    """U-01, U-05: in cli.md."""
    page = pages.text("docs/cli.md")
    options_section = pages.section(page, "## Global options")
    assert [name for name in options(ROOT_COMMAND) if f"`{name}" not in options_section] == []
    codes = pages.section(page, "## Exit codes")
    assert [code for code in Exit if f"| {code.value} |" not in codes] == []


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_documented(name: str) -> None:
    """L-02, U-05: operations.md has a row for each setting with its key, its variable and its actual default."""
    rows = [line for line in pages.text("docs/operations.md").splitlines() if line.startswith(f"| `{name}` |")]
    assert len(rows) == 1
    _, _, variable, default, meaning, _ = map(str.strip, re.split(r"(?<!\\)\|", rows[0]))
    assert variable == f"`{PREFIX}{name.upper()}`"
    assert meaning
    declared = Settings.model_fields[name].default
    if declared is not None:
        text = f"{declared:g}" if isinstance(declared, float) else str(declared).lower()
        assert default.strip("`") == text


def test_exactly_the_existing_metrics_are_documented(database: Database) -> None:
    """O-02, U-05: operations.md has a row for each metric."""
    registry = Metrics(database, lambda: False, Settings()).registry
    suffixes = {"counter": "_total", "info": "_info"}
    exposed = {family.name + suffixes.get(family.type, "") for family in registry.collect()}
    assert pages.metrics(pages.text("docs/operations.md")) == exposed


def test_every_observation_is_documented() -> None:
    """O-05, U-05: observability.md lists each with the level of its log line, and no other."""
    page = pages.section(pages.text("docs/observability.md"), "### Every observation")
    listed = dict(re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \| (\S+) \| \w", page, re.MULTILINE))
    assert listed == {kind.name: logs.LEVELS.get(kind, "–") for kind in observation_types()}


def observation_types() -> list[type[Observation]]:
    """Return all classes of the catalogue that are emitted."""
    modules = [
        import_module(module.name) for module in iter_modules(observations.__path__, f"{observations.__name__}.")
    ]
    kinds = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    return [kind for kind in kinds if issubclass(kind, Observation) and "name" in vars(kind)]


def test_observation_names_are_unique_and_have_a_description() -> None:
    """O-05: a log line identifies its observation."""
    kinds = observation_types()
    assert len({kind.name for kind in kinds}) == len(kinds)
    assert [kind.__name__ for kind in kinds if not kind.__doc__ or kind.__doc__.startswith(kind.__name__)] == []


def test_every_route_is_documented(database: Database) -> None:
    """U-05: api.md has each method and path of the OpenAPI document."""
    page = pages.text("docs/api.md")
    described = create_app(Services.over(database, Settings())).openapi()["paths"]
    names = re.compile(r"\{project\}/\{domain\}/\{\w+\}/\{\w+\}")
    routes = [f"{method.upper()} {names.sub('…', path)}" for path, methods in described.items() for method in methods]
    assert [route for route in routes if f"`{route}`" not in page] == []


def test_every_problem_code_is_documented() -> None:
    """U-05: api.md lists the codes with their status and exit code."""
    rows = pages.section(pages.text("docs/api.md"), "## Problem documents").splitlines()
    for code, kind in KINDS.items():
        [row] = [line for line in rows if f"| `{code}` |" in line]
        assert str(kind.status) in row
        assert row.endswith(f"| {kind.exit.value} |")


def names_of(kind: Any) -> list[str]:
    """Return the names of a block's fields as they are written."""
    return [field.alias or name for name, field in kind.__pydantic_fields__.items()]


def test_every_manifest_field_is_documented() -> None:
    """R-18, U-05: manifests.md names each supported field, and each that is reserved for a later version."""
    page = pages.text("docs/manifests.md")
    kinds = (
        trigger.TriggerSpec,
        trigger.ScheduleSpec,
        trigger.TriggerMetadata,
        TaskSpec,
        CalendarSpec,
        CalendarMetadata,
    )
    fields = {name for kind in kinds for name in names_of(kind)} - {"block"}
    fields |= {f"catchup.{name}" for name in names_of(trigger.CatchupSpec)}
    fields |= {f"retry.{name}" for name in names_of(trigger.RetrySpec)}
    fields |= {f"concurrency.{name}" for name in names_of(ConcurrencySpec)}
    fields |= {f"expect.{name}" for name in names_of(trigger.ExpectSpec)}
    fields |= {*names_of(trigger.LimitsSpec)}
    fields = (fields - {"catchup", "retry", "concurrency", "expect"}) | reading.LATER | set(launchers())
    assert sorted(name for name in fields if f"`{name}`" not in page) == []


def test_every_dependency_is_documented() -> None:
    """U-05: the tables of decisions.md name each dependency of the product, its tests and its checks."""
    rows = "\n".join(re.findall(r"^\| ([^|]+) \|", pages.text("docs/decisions.md"), re.MULTILINE)).lower()
    project = tomllib.loads(pages.text("pyproject.toml"))["project"]
    needed = project["dependencies"] + [name for extra in project["optional-dependencies"].values() for name in extra]
    names = [re.split(r"[\[<>=~! ]", line)[0].lower() for line in needed]
    assert [name for name in names if name not in rows and name != project["name"]] == []


def test_the_architecture_names_only_existing_code() -> None:
    """U-05: every path, module and name of code in architecture.md is in the tree."""
    assert pages.missing_code(pages.text("docs/architecture.md")) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("loop/alarms.py", "loop/alarm.py"),
        ("reconcile/triggers/append.py", "controller/triggers/append.py"),
        ("revisions/spec/", "revisions/specs/"),
        ("append_revision", "append_revision_now"),
        ("trigger_status.next_fire_at", "trigger_status.next_fires_at"),
        ("reconcile/launchers/<kind>.py", "reconcile/launcher/<kind>.py"),
        ("guard.py", "guards.py"),
    ],
)
def test_a_wrong_name_in_the_architecture_is_noticed(right: str, wrong: str) -> None:
    """U-05: a renamed module or function fails the test above."""
    page = pages.text("docs/architecture.md")
    assert f"`{right}`" in page
    assert wrong in pages.missing_code(page.replace(f"`{right}`", f"`{wrong}`"))


def test_a_wrong_name_in_the_drawing_is_noticed() -> None:
    """U-05: the drawing of a manifest's path names modules, too."""
    page = pages.text("docs/architecture.md")
    wrong = page.replace('["7 reconcile/triggers/locks.py"]', '["7 reconcile/triggers/lock.py"]')
    assert pages.missing_code(wrong) == ["reconcile/triggers/lock.py"]


@pytest.mark.parametrize("name", ["reconcile.loop.timers", "controller.guard"])
def test_a_wrong_dotted_module_is_noticed(name: str) -> None:
    """U-05: dotted names are modules of the packages."""
    assert pages.missing_code(f"`reconcile.loop.alarms` and `{name}`") == [name]


def commands_in_blocks() -> Iterator[tuple[str, str]]:
    """Yield (page, command) of every triggerctl command in a shell block."""
    for page in PAGES:
        for block in pages.blocks(page.read_text(encoding="utf-8"), "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                match = re.search(r"(?:^|\$\(|; do | -- +)(triggerctl .*)", line)
                if match:
                    yield page.name, re.split(r" [|&]+(?: |$)| 2>|; done|;", match[1])[0]


@pytest.mark.parametrize(("page", "line"), list(commands_in_blocks()), ids=lambda text: text[:60])
def test_every_command_in_a_block_is_valid(page: str, line: str) -> None:
    """U-05: command, options and arguments exist."""
    words = global_options_first(shlex.split(line, comments=True)[1:])
    context = ROOT_COMMAND.make_context("triggerctl", words, resilient_parsing=False)
    rest = [*context._protected_args, *context.args]
    command: Any = ROOT_COMMAND
    while hasattr(command, "commands"):
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
        rest = [*getattr(context, "_protected_args", []), *context.args]


def commands_in_sentences() -> Iterator[tuple[str, str]]:
    """Yield (page, words) of every triggerctl command within a sentence."""
    for page in PAGES:
        for words in re.findall(r"`triggerctl ([a-z][^`\n]*)`", page.read_text(encoding="utf-8")):
            yield page.name, words


@pytest.mark.parametrize(("page", "words"), sorted(set(commands_in_sentences())), ids=lambda text: text[:60])
def test_every_command_in_a_sentence_exists(page: str, words: str) -> None:
    """U-05: with the named options; arguments may be left out."""
    command: Any = ROOT_COMMAND
    rest = words.split()
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    named = [word.partition("=")[0].strip("[]") for word in rest if re.match(r"\[?--?[a-z]", word)]
    assert [name for name in named if name not in [*options(command), *options(ROOT_COMMAND)]] == []


def manifests_in_docs() -> Iterator[Any]:
    """Yield every manifest in the documentation and the examples."""
    texts = [(page, block) for page in PAGES for block in pages.blocks(page.read_text(encoding="utf-8"), "yaml")]
    texts += [(path, path.read_text(encoding="utf-8")) for path in sorted((ROOT / "config/examples").rglob("*.yaml"))]
    for path, text in texts:
        if "apiVersion" in text:
            yield pytest.param(text, id=f"{path.name}-{text.count(chr(10))}")


@pytest.mark.parametrize("text", list(manifests_in_docs()))
def test_every_documented_manifest_is_accepted_or_refused_as_stated(text: str) -> None:
    """U-05: a manifest whose first line is `# error: …` is refused with this message; all others are accepted."""
    expected = re.match(r"# error: (.*)", text)
    if not expected:
        assert [validated(document) for document in documents.load(text)] != []
        return
    with pytest.raises(Invalid) as refused:
        [validated(document) for document in documents.load(text)]
    assert refused.value.detail == expected[1]


def validated(document: Any) -> Manifest:
    """Return the manifest as a deploy or a registration would accept it. Raises Invalid."""
    found = manifest.read(document)
    match found:
        case trigger.TriggerManifest():
            faults = changes.faults(found)
        case CalendarManifest():
            faults = []
        case TaskManifest():
            launchers()[found.spec.launcher].read(found.spec.block)
            faults = []
    if faults:
        path, message = faults[0].path, faults[0].message
        raise Invalid(f"{path}: {message}", [])
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_has_a_target(page: Path) -> None:
    """U-05: files and headings exist, and every page can be reached from the README or from the list of runbooks."""
    content = page.read_text(encoding="utf-8")
    broken = []
    for file, anchor in pages.links(content):
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in pages.anchors(target.read_text(encoding="utf-8"))):
            broken.append(f"{file}#{anchor}")
    assert broken == []
    assert page in linked_files(ROOT / "README.md") | linked_files(RUNBOOKS) | {ROOT / "README.md"}


def linked_files(page: Path) -> set[Path]:
    return {(page.parent / file).resolve() for file, _ in pages.links(page.read_text(encoding="utf-8"))}


RunQuery = Callable[[str], list[dict[str, Any]]]
"""Function that returns the controller's runs for a query string; none while the controller does not answer."""

PAUSES = """
sleep() {
    echo >> ~/.pauses
    until [ -e ~/.seen$(wc -l < ~/.pauses) ]; do command sleep 0.05; done
}
"""
"""Shell function that replaces `sleep`: it waits until the test has observed what the reader waits for."""


def run_walkthrough(port: int, script: str, folder: Path, *looks: Callable[[RunQuery], Any]) -> str:
    """Run a script as a reader types it in a checkout with an empty home, and return its output.

    The controller listens at `port`. Each `sleep` ends when the next of `looks` returns a true value.
    """
    shutil.copytree(ROOT / "config" / "examples", folder / "config" / "examples")
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(folder),
        "TRIGGERCTL_LISTEN": f"127.0.0.1:{port}",
    }
    kill_jobs = "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n"  # else `wait` would not end after a failure
    script = kill_jobs + PAUSES + script.replace("127.0.0.1:8080", f"127.0.0.1:{port}") + "\nwait"
    out, err, pauses = folder / ".out", folder / ".err", folder / ".pauses"

    def runs(query: str) -> list[dict[str, Any]]:
        with suppress(httpx.TransportError):
            answer = httpx.get(f"http://127.0.0.1:{port}/api/v1/runs?{query}", timeout=PATIENCE)
            items: list[dict[str, Any]] = answer.json()["items"]
            return items
        return []

    with out.open("w") as stdout, err.open("w") as stderr:
        started = subprocess.Popen(
            ["bash", "-eu", "-o", "pipefail", "-c", script],
            cwd=folder,
            env=environment,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )

    def is_paused(number: int) -> bool:
        assert started.poll() is None, f"{out.read_text()}\n{err.read_text()}"
        return pauses.exists() and len(pauses.read_text()) == number

    try:
        for number, look in enumerate(looks, 1):
            eventually(partial(is_paused, number), every=0.05)
            eventually(partial(look, runs), every=0.05)
            (folder / f".seen{number}").touch()
        started.wait(PATIENCE)
    finally:
        kill_group(started.pid)
    assert started.returncode == 0, f"{out.read_text()}\n{err.read_text()}"
    assert "error" not in err.read_text()
    return out.read_text()


def kill_group(pid: int) -> None:
    """Kill the process group that a failed walkthrough left running."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def test_the_readme_walkthrough_works(port: int, tmp_path: Path) -> None:
    """U-05: the first task and trigger run, the history shows the changes, and the controller stops."""
    file = tmp_path / "hello" / "greetings.txt"
    script = pages.walkthrough(pages.text("README.md"))
    out = run_walkthrough(
        port, script, tmp_path, lambda runs: runs("status=succeeded"), lambda _: "Grace" in file.read_text()
    )
    greetings = file.read_text()
    assert "Hello Ada" in greetings
    assert "Hello Grace" in greetings
    assert "greeted Ada" in out
    assert re.search(r"^2 +DEPLOY +yes", out, re.MULTILINE)
    assert re.search(r"^3 +DEACTIVATE +no .* Ada is on holiday", out, re.MULTILINE)


def test_the_quickstart_walkthrough_works(port: int, tmp_path: Path) -> None:
    """U-05: the examples run in a copy, and the report is written."""
    out = run_walkthrough(
        port,
        pages.walkthrough(pages.text("docs/quickstart.md")),
        tmp_path,
        lambda runs: runs("status=succeeded&source=schedule&trigger=bakery/prod/orders/slots"),
        lambda runs: runs("status=succeeded&trigger=bakery/prod/sales/weekly"),
    )
    assert "# Bakery sales, week 11 of 2026" in out
    assert re.search(r"bakery/prod/orders/slots +succeeded .* schedule", out)
    assert re.search(r"^3 +ACTIVATE|^2 +DEACTIVATE +no .* stocktaking", out, re.MULTILINE)
    assert re.search(r"^2 +DELETE .* only an example", out, re.MULTILINE)
