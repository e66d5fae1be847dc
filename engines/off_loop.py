"""Work that grows with what a client or an engine sent: on the event loop while it is small, on a thread when it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

LARGE_BYTES = 64 * 1024
"""What is larger is worked on in a thread: milliseconds on the event loop would delay every other stream."""

P = ParamSpec("P")
T = TypeVar("T")


async def off_loop(size_bytes: int, call: Callable[P, T], /, *arguments: P.args, **options: P.kwargs) -> T:
    """The result of `call`, which works on so many bytes."""
    if size_bytes <= LARGE_BYTES:
        return call(*arguments, **options)
    return await asyncio.to_thread(call, *arguments, **options)
