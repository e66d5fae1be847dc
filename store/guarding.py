"""What a chore writes is written only while it may: the guard of a thread, or of a task and all that it begins.

A chore calls many nouns, and each writes in jobs of its own. So the guard is not handed from one to the next: it stands in
the context (contextvars), where whoever takes a job into the writer's queue finds it. Knows no database and no lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Guard(Protocol):
    """Says whether a chore may go on."""

    def check(self, connection: Any) -> None:
        """Inside a write job, before it: raise where nothing may be written any more."""
        ...

    def check_here(self) -> None:
        """Raise where, as far as this process can tell by itself, nothing may be written any more. Microseconds."""
        ...


_GUARDS: ContextVar[tuple[Guard, ...]] = ContextVar("guards", default=())


@contextmanager
def guarded(guard: Guard) -> Iterator[None]:
    """What the block hands over to be written, itself and in tasks that it begins, is written only if `guard` allows it.

    Threads of their own are not meant, asyncio.to_thread is. Within another such block both must allow it.
    """
    token = _GUARDS.set((*_GUARDS.get(), guard))
    try:
        yield
    finally:
        _GUARDS.reset(token)


def checked(job: Callable[[Any], T]) -> Callable[[Any], T]:
    """A write job that the guards of this context allow or refuse when it is run; the job itself where there are none."""
    guards = _GUARDS.get()
    if not guards:
        return job

    def run(connection: Any) -> T:
        for guard in guards:
            guard.check(connection)
        return job(connection)

    return run


def check_here() -> None:
    """Raise what the guards of this context raise. For what cannot be undone and is no write, such as a paid request."""
    for guard in _GUARDS.get():
        guard.check_here()
