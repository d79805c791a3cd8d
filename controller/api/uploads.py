"""Bodies of any size: kept in a file, not in memory, while they come in."""

import tempfile
from collections.abc import AsyncIterator
from typing import Annotated, Any, BinaryIO

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

IN_MEMORY = 1024 * 1024


async def upload(request: Request) -> AsyncIterator[BinaryIO]:
    """What was sent, to be read from its beginning."""
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as file:
        async for chunk in request.stream():
            await run_in_threadpool(file.write, chunk)
        file.seek(0)
        yield file  # type: ignore[misc]  # it is one but for its name


Uploaded = Annotated[BinaryIO, Depends(upload)]


def described(media_type: str, what: str) -> dict[str, Any]:
    """`openapi_extra` of a route that takes an upload."""
    return {"requestBody": {"required": True, "description": what, "content": {media_type: {}}}}
