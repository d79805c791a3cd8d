"""Picks observations out of those that a test collected."""

from collections.abc import Iterable
from typing import TypeVar

from reconcile.observations.observation import Observation

Kind = TypeVar("Kind", bound=Observation)


def only(kind: type[Kind], observed: Iterable[Observation]) -> list[Kind]:
    """Return those of one class, in the order in which they were emitted."""
    return [observation for observation in observed if isinstance(observation, kind)]
