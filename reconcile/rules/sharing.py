"""Which projects may use a scope of secrets: pure (X-12)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from revisions.errors import Fault


@dataclass(frozen=True, slots=True)
class Sharing:
    """`projects` of each scope that is kept to some; a scope that is not listed is open to all."""

    projects: Mapping[str, Collection[str]] = field(default_factory=dict)

    def fault(self, scope: str | None, project: str) -> Fault | None:
        """What is wrong with a trigger of the project that names the scope, None when nothing is."""
        if scope is None or project in self.projects.get(scope, (project,)):
            return None
        hint = f"name a scope of {project}'s, or have the setting secret_scopes list {project} under {scope}"
        return Fault("spec.secret_scope", f"the secrets of scope {scope} are not for project {project}", hint)
