"""The engines of a process that configurations share: one that did not change keeps its connections, circuit breaker and
waiting requests, and is closed when the last configuration that uses it is done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from engines.engine import Engine, Starts


@dataclass(slots=True, eq=False)
class _Lent:
    name: str
    made_from: object
    engine: Engine
    users: int = 0
    started: bool = False


class EnginePool:
    """All engines that are lent, by name and by what they were made from."""

    def __init__(self) -> None:
        self._lent: list[_Lent] = []
        self._lock = threading.Lock()

    def borrow(self) -> Borrowed:
        """For one configuration."""
        return Borrowed(self._lent, self._lock)


class Borrowed:
    """The engines of one configuration. `lend` from any thread; the rest inside the running loop."""

    def __init__(self, all_lent: list[_Lent], lock: threading.Lock) -> None:
        self._all = all_lent
        self._lock = lock
        self._own: list[_Lent] = []

    def lend(self, name: str, made_from: object, make: Callable[[], Engine]) -> Engine:
        """The engine of this name that was made from an equal value, else a new one. Raises what `make` raises."""
        with self._lock:
            lent = next((one for one in self._all if (one.name, one.made_from) == (name, made_from)), None)
            if lent is None:
                lent = _Lent(name, made_from, make())
                self._all.append(lent)
            lent.users += 1
            self._own.append(lent)
        return lent.engine

    def __contains__(self, engine: Engine) -> bool:
        return any(lent.engine is engine for lent in self._own)

    def start(self) -> None:
        """Begin to bring up what runs in this process and was not started yet."""
        for lent in self._own:
            if isinstance(lent.engine, Starts) and not lent.started:
                lent.started = True
                lent.engine.start()

    async def aclose(self) -> None:
        """Close those that no other configuration uses, also when one fails to."""
        errors: list[Exception] = []
        while self._own:
            with self._lock:
                lent = self._own.pop()
                lent.users -= 1
                if lent.users:
                    continue
                self._all.remove(lent)
            try:
                await lent.engine.aclose()
            except Exception as error:
                errors.append(error)
        if errors:
            raise ExceptionGroup("closing engines", errors)
