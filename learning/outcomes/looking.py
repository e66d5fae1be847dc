"""Looks at texts for an event loop: at short ones on the spot, at long ones on a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

SHORT = 2_000
"""Characters, or bytes, of all texts together that take half a millisecond, and two where one is made to take long. A
change of threads and back takes as much where they share a core."""

P = ParamSpec("P")
T = TypeVar("T")


async def looked_at(size: int, look: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `look` gives, on a thread if its texts are long (`size`: characters or bytes). Raises as it does."""
    if size <= SHORT:
        return look(*args, **kwargs)
    return await asyncio.to_thread(look, *args, **kwargs)
