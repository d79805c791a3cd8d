"""All routes of an application, also of included routers and mounted applications."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from starlette.routing import Mount


def routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Yield method and path of each route."""
    for route in app.routes:
        yield from _of(route, "")


def _of(route: Any, prefix: str) -> Iterator[tuple[str, str]]:
    if hasattr(route, "original_router"):
        for inner in route.original_router.routes:
            yield from _of(inner, prefix + route.include_context.prefix)
    elif isinstance(route, Mount):
        yield from ((method, f"{prefix}{route.path}/{{path:path}}") for method in ("GET", "HEAD"))
    else:
        yield from ((method, prefix + route.path) for method in route.methods)
