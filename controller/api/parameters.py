"""Query parameters that a route does not have are refused: a mistyped filter must not list everything (R-18)."""

from typing import Any

from fastapi import Request

from revisions.errors import Fault, Invalid, few


async def only_known(request: Request) -> None:
    """Stands before every route. Raises Invalid for parameters it does not take, naming the nearest it does."""
    if not request.query_params:
        return
    known = _names(request.scope["route"].dependant)
    sent = request.query_params.multi_items()
    faults = few(_unknown(name, known) for name in dict(sent) if name not in known)
    faults += [
        Fault(name, "stands there more than once", "send it once")
        for name in sorted(known)
        if sum(name == given for given, _ in sent) > 1
    ]
    if faults:
        raise Invalid(f"{faults[0].path}: {faults[0].message}", faults)


def _unknown(name: str, known: set[str]) -> Fault:
    if not known:
        return Fault(name, "is not a known parameter", "this takes none")
    return Fault.unknown(name, name, known, "parameter")


def _names(dependant: Any) -> set[str]:
    """The query parameters of a route and of everything it depends on, as FastAPI read them from the signatures."""
    own = {field.alias for field in dependant.query_params}
    return own.union(*map(_names, dependant.dependencies))
