"""Random histories by several people, compared with a simple model in memory, on both databases."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.observations.observation import Observations
from reconcile.triggers.activation import activate_trigger, deactivate_trigger, delete_trigger, resume_paused
from reconcile.triggers.deploy import deploy_trigger, rename_trigger, rollback_trigger
from reconcile.triggers.history.rebuild import compare_tables
from reconcile.triggers.history.verify import verify_histories
from reconcile.triggers.tasks import register_task
from revisions.clock import HandClock
from revisions.errors import Conflict, NotFound, PreconditionFailed, PreconditionRequired, TriggerctlError
from revisions.history.triggers import fold
from revisions.ids import TaskKey, TriggerKey
from revisions.spec.task import TaskManifest
from revisions.spec.trigger import TriggerManifest
from revisions.store import revisions as revision_store
from revisions.store import tasks, triggers
from revisions.store.database import Database

CHOICES: dict[str, list[Any]] = {
    "name": ["a", "a", "a", "b"],
    "new": ["a", "b"],
    "actor": ["ann", "bob", "ci"],
    "read": ["right"] * 8 + ["stale", "nothing"],
    "key": [None] * 8 + ["k1", "k2"],
    "active": [None] * 4 + [True, False],
    "word": ["", "x", "y"],
    "tags": [(), ("t",), ("t", "u")],
    "version": ["v1", "v2"],
    "pause": [None, 5, 5],
    "to": [*range(1, 9)],
    "minutes": [1, 3, 7],
}


Step = TypeVar("Step", bound=Callable[..., None])


def chosen(*names: str) -> Callable[[Step], Step]:
    """Return a decorator that makes a step a rule, with arguments drawn from `CHOICES`."""
    choices: dict[str, Any] = {name: st.sampled_from(CHOICES[name]) for name in names}
    decorator: Callable[[Step], Step] = rule(**choices)
    return decorator


PROJECTS = count(1)


@dataclass(frozen=True)
class Made:
    """Revision in the model."""

    action: str
    actor: str
    active: bool
    word: str
    version: str
    tags: tuple[str, ...]
    key: str | None = None
    reason: str = ""


@dataclass
class Model:
    """Trigger in the model: its history, and the minute at which a pause ends."""

    history: list[Made] = field(default_factory=list)
    until: int | None = None

    @property
    def last(self) -> Made:
        return self.history[-1]

    @property
    def deleted(self) -> bool:
        return self.last.action == "DELETE"

    def append(self, made: Made) -> None:
        self.history.append(made)


class Histories(RuleBasedStateMachine):
    """Steps done to the database and to the model, which predicts the error of each refused step."""

    database: ClassVar[Database]

    @initialize()
    def begin(self) -> None:
        clock = self.database.clock
        assert isinstance(clock, HandClock)
        self.clock = clock
        self.project = f"p{next(PROJECTS)}"
        self.observations = Observations()
        for version in ("v1", "v2"):
            register_task(
                self.database,
                self.observations,
                TaskManifest.read(self._document("Task", "report", version=version)),
                Caller(),
            )
        self.model: dict[str, Model] = {}
        self.minutes = 0
        self.deploy("a", "ann", "right", None, None, word="", tags=(), version="v1")

    @chosen("name", "actor", "read", "key", "active", "word", "tags", "version")
    def deploy(self, name: str, actor: str, read: str, key: str | None, active: bool | None, **options: Any) -> None:
        model = self.model.get(name)
        exists = model is not None and not model.deleted
        expected = self._read(model, read, absent=not exists)
        wanted = Made("DEPLOY", actor, True, options["word"], options["version"], options["tags"], key)
        spec = {"description": wanted.word} if wanted.word else {}
        document = self._document("Trigger", name, tags=list(wanted.tags), task_version=wanted.version, **spec)
        if active is not None:
            document["spec"]["active"] = active
        expected_error: type[TriggerctlError] | None = None
        made: Made | None = None
        if (earlier := self._earlier(model, key)) is not None:
            same = (earlier.action, earlier.word, earlier.version, earlier.tags) == wanted_of(wanted)
            expected_error = None if same and active in (None, earlier.active) else Conflict
        elif not exists and expected.revision is not None:
            expected_error = PreconditionFailed
        elif exists and expected != Expected(revision=len(model.history)):  # type: ignore[union-attr]
            expected_error = PreconditionRequired if expected == Expected() else PreconditionFailed
        else:
            enabled = active if active is not None else (model.last.active if exists else True)  # type: ignore[union-attr]
            made = replace(wanted, active=enabled)
            if exists and wanted_of(made) == ("DEPLOY", *wanted_of(model.last)[1:]) and enabled == model.last.active:  # type: ignore[union-attr]
                made = None
        self._do(
            expected_error,
            lambda: deploy_trigger(
                self.database, self.observations, TriggerManifest.read(document), expected, Caller(actor, "", key)
            ),
        )
        if made:
            target = self.model.setdefault(name, Model())
            if active is not None or not exists:
                target.until = None
            target.append(made)

    @chosen("name", "actor", "read", "key", "pause")
    def deactivate(self, name: str, actor: str, read: str, key: str | None, pause: int | None) -> None:
        until = self.clock.now() + timedelta(minutes=pause) if pause else None
        wanted = {"action": "DEACTIVATE", "active": False}

        def change(expected: Expected) -> object:
            return deactivate_trigger(
                self.database, self.observations, self._key(name), expected, Caller(actor, "why", key), until=until
            )

        def after(model: Model) -> None:
            model.until = self.minutes + pause if pause else None

        self._toggle(name, actor, read, key, wanted, change, after, retryable=pause is None)

    @chosen("name", "actor", "read", "key")
    def activate(self, name: str, actor: str, read: str, key: str | None) -> None:
        def change(expected: Expected) -> object:
            return activate_trigger(
                self.database, self.observations, self._key(name), expected, Caller(actor, "why", key)
            )

        self._toggle(name, actor, read, key, {"action": "ACTIVATE", "active": True}, change, _unpaused)

    @chosen("name", "actor", "read", "key")
    def delete(self, name: str, actor: str, read: str, key: str | None) -> None:
        def change(expected: Expected) -> object:
            return delete_trigger(
                self.database, self.observations, self._key(name), expected, Caller(actor, "why", key)
            )

        self._toggle(name, actor, read, key, {"action": "DELETE", "active": False}, change, _unpaused)

    @chosen("name", "actor", "to")
    def roll_back(self, name: str, actor: str, to: int) -> None:
        model = self.model.get(name)
        if model is None:
            self._do(
                NotFound,
                lambda: rollback_trigger(
                    self.database, self.observations, self._key(name), 1, Expected(revision=1), Caller(actor)
                ),
            )
            return
        to = min(to, len(model.history))
        expected = Expected(revision=len(model.history))
        wanted = model.history[to - 1]
        enabled = wanted.active if model.deleted else model.last.active
        made = replace(
            wanted, action="DEPLOY", actor=actor, active=enabled, key=None, reason=f"rollback to revision {to}"
        )
        same = not model.deleted and wanted_of(made)[1:] == wanted_of(model.last)[1:]
        changed = self._do(
            None,
            lambda: rollback_trigger(self.database, self.observations, self._key(name), to, expected, Caller(actor)),
        )
        assert changed.changed is not same
        if not same:
            if model.deleted:
                model.until = None
            model.append(made)

    @chosen("name", "new", "actor")
    def rename(self, name: str, new: str, actor: str) -> None:
        model = self.model.get(name)
        expected_error: type[TriggerctlError] | None = None
        if model is None or model.deleted:
            expected_error = NotFound
        elif new != name and new in self.model:
            expected_error = Conflict
        expected = Expected(revision=len(model.history) if model else 1)
        self._do(
            expected_error,
            lambda: rename_trigger(self.database, self.observations, self._key(name), new, expected, Caller(actor)),
        )
        if expected_error is None and new != name:
            assert model is not None
            model.append(replace(model.last, action="DEPLOY", actor=actor, key=None, reason=f"renamed from {name}"))
            self.model[new] = self.model.pop(name)

    @chosen("minutes")
    def let_time_pass(self, minutes: int) -> None:
        self.clock.advance(timedelta(minutes=minutes))
        self.minutes += minutes
        resume_paused(self.database, self.observations)
        for model in self.model.values():
            if not model.deleted and not model.last.active and model.until is not None and model.until <= self.minutes:
                model.append(
                    replace(model.last, action="ACTIVATE", actor="system", active=True, key=None, reason="pause ended")
                )
                model.until = None

    def teardown(self) -> None:
        if hasattr(self, "model"):
            assert verify_histories(self.database).is_sound
            assert compare_tables(self.database).differences == []

    @invariant()
    def check_database_against_model(self) -> None:
        if not hasattr(self, "model"):
            return
        with self.database.read() as connection:
            summaries = {"v1": [0, 0], "v2": [0, 0]}
            for name in ("a", "b"):
                current = triggers.get(connection, self._key(name))
                model = self.model.get(name)
                if model is None:
                    assert current is None
                    continue
                assert current is not None
                revisions = revision_store.page(connection, current.trigger_id, None, 1_000)[::-1]
                assert [made_of(revision) for revision in revisions] == model.history
                assert [revision.revision for revision in revisions] == list(range(1, len(revisions) + 1))
                assert current == fold(revisions)
                if not current.deleted:
                    summaries[model.last.version][0] += 1
                    summaries[model.last.version][1] += current.active
            for version, expected in summaries.items():
                row = tasks.get(connection, TaskKey(self.project, "d", "report", version))
                assert row is not None
                assert [row.total_triggers, row.active_triggers] == expected

    def _toggle(
        self,
        name: str,
        actor: str,
        read: str,
        key: str | None,
        wanted: dict[str, Any],
        change: Any,
        after: Any,
        *,
        retryable: bool = True,
    ) -> None:
        model = self.model.get(name)
        expected = self._read(model, read, absent=False)
        expected_error: type[TriggerctlError] | None = None
        made = None
        if (earlier := self._earlier(model, key)) is not None:
            same = (earlier.action, earlier.reason) == (wanted["action"], "why")
            if same and not (retryable and _was_for_good(model, earlier)):
                return  # the model does not keep the end of the earlier pause, by which the answer is decided
            expected_error = None if same else Conflict
        elif model is None or model.deleted:
            expected_error = NotFound
        elif expected.revision is None:
            expected_error = PreconditionRequired
        elif expected.revision != len(model.history):
            expected_error = PreconditionFailed
        elif wanted["action"] == "DELETE" or model.last.active != wanted["active"]:
            made = replace(model.last, **wanted, actor=actor, key=key, reason="why")
        self._do(expected_error, lambda: change(expected))
        if made:
            assert model is not None
            model.append(made)
            after(model)

    def _do(self, expected_error: type[TriggerctlError] | None, step: Any) -> Any:
        if expected_error is None:
            return step()
        with pytest.raises(expected_error) as refused:
            step()
        assert type(refused.value) is expected_error
        return None

    def _read(self, model: Model | None, read: str, *, absent: bool) -> Expected:
        """Return the expectation of a person who has read the right revision, a stale one, or none."""
        match read:
            case "right":
                return Expected(absent=True) if absent else Expected(revision=len(model.history) if model else 1)
            case "stale":
                return Expected(revision=len(model.history) + 7 if model else 7)
        return Expected()

    def _earlier(self, model: Model | None, key: str | None) -> Made | None:
        found = [made for made in model.history if key and made.key == key] if model else []
        return found[0] if found else None

    def _key(self, name: str) -> TriggerKey:
        return TriggerKey(self.project, "d", "report", name)

    def _document(self, kind: str, name: str, tags: Any = None, version: str = "", **spec: Any) -> dict[str, Any]:
        metadata: dict[str, Any] = {"project": self.project, "domain": "d", "name": name}
        if kind == "Task":
            metadata |= {"version": version}
            spec = {"launcher": "process", "process": {"command": ["true"]}}
        else:
            metadata |= {"task": "report", "tags": tags}
            spec = {"schedule": {"every": "1h"}, **spec}
        return {"apiVersion": "triggerctl/v1", "kind": kind, "metadata": metadata, "spec": spec}


def wanted_of(made: Made) -> tuple[Any, ...]:
    """Return the parts of a revision that a deploy determines."""
    return made.action, made.word, made.version, made.tags


def made_of(revision: Any) -> Made:
    spec = json.loads(revision.spec)
    return Made(
        action=revision.action.value,
        actor=revision.actor,
        active=revision.active,
        word=spec.get("description", ""),
        version=spec["task_version"],
        tags=revision.tags,
        key=revision.idempotency_key,
        reason=revision.reason,
    )


def _unpaused(model: Model) -> None:
    model.until = None


def _was_for_good(model: Model | None, earlier: Made) -> bool:
    return earlier.action != "DEACTIVATE"


@pytest.fixture
def machine(database: Database) -> type[Histories]:
    return type("HistoriesHere", (Histories,), {"database": database})


def test_random_histories_match_a_simple_model(machine: type[Histories]) -> None:
    """R-03, R-04, R-06, R-08: after each step the database holds what the model holds."""
    quick = settings(max_examples=15, stateful_step_count=30, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(machine, settings=quick)


STEPS = {
    "deploy": ("name", "actor", "read", "key", "active", "word", "tags", "version"),
    "deactivate": ("name", "actor", "read", "key", "pause"),
    "activate": ("name", "actor", "read", "key"),
    "delete": ("name", "actor", "read", "key"),
    "roll_back": ("name", "actor", "to"),
    "rename": ("name", "new", "actor"),
    "let_time_pass": ("minutes",),
}


@pytest.mark.parametrize("seed", range(3))
def test_long_random_histories_match_a_simple_model(machine: type[Histories], seed: int) -> None:
    """R-20, R-22: with pauses that end, restored triggers and reused names. Verify and rebuild find no difference."""
    choose = random.Random(seed)
    histories = machine()
    histories.begin()
    for _ in range(150):
        step = choose.choices(list(STEPS), weights=[6, 3, 2, 1, 2, 2, 3])[0]
        getattr(histories, step)(**{name: choose.choice(CHOICES[name]) for name in STEPS[step]})
        histories.check_database_against_model()
    histories.teardown()
