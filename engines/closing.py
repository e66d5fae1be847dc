"""Closes several things, also where one of them cannot be closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable


async def close_all(closers: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Call each of them. Raises an ExceptionGroup of what they raised."""
    errors: list[Exception] = []
    for close in closers:
        try:
            await close()
        except Exception as error:
            errors.append(error)
    if errors:
        raise ExceptionGroup("closing", errors)
