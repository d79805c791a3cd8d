"""Large bodies: kept in a file, not in memory, while they come in."""

import tempfile
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, BinaryIO

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from controller.errors import TooLarge

IN_MEMORY = 1024 * 1024


def up_to(largest: int | None) -> Callable[[Request], AsyncIterator[BinaryIO]]:
    """What was sent, to be read from its beginning; None: of any size. It raises TooLarge beyond so many bytes."""

    async def upload(request: Request) -> AsyncIterator[BinaryIO]:
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as file:
            async for chunk in request.stream():
                await run_in_threadpool(file.write, chunk)
                if largest is not None and file.tell() > largest:
                    raise TooLarge(f"the body is larger than {largest} bytes")
            file.seek(0)
            yield file  # type: ignore[misc]  # it is one but for its name

    return upload


Uploaded = Annotated[BinaryIO, Depends(up_to(None))]


def described(media_type: str, what: str) -> dict[str, Any]:
    """`openapi_extra` of a route that takes an upload."""
    return {"requestBody": {"required": True, "description": what, "content": {media_type: {}}}}
