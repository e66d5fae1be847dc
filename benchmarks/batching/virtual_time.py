"""An event loop in virtual time: when nobody has anything to do, its clock jumps to the next timer.

What runs in it is the real code with its real timers; an hour of waiting costs nothing, and a seeded run gives the same
figures each time. For simulations and tests only: while it runs, `time.monotonic`, `time.perf_counter` and `time.time` tell
its time to the whole process.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest import mock

_T = TypeVar("_T")
_EPOCH_S = 1_700_000_000.0
"""What `time.time` tells at the beginning of a run."""


class NothingLeft(RuntimeError):
    """Tasks wait, and no timer will ever wake them: a deadlock."""


class _Jumping(selectors.SelectSelector):
    """Never waits: advances the clock by as much as it was to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now; otherwise it is `timeout` seconds later. Raises NothingLeft."""
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise NothingLeft("every task waits, and no timer is set")
            self.now_s += max(0.0, timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """See the module. Work for threads is done on the spot and takes no time."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds since the run began."""
        return self._jumping.now_s

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Calls `func` now."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


def run(main: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """What `main()` returns, run in virtual time. Raises NothingLeft where it would wait for ever."""
    loop = VirtualTimeLoop()
    with _clocks(loop), asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main())


@contextmanager
def _clocks(loop: VirtualTimeLoop) -> Iterator[None]:
    """The clocks of the process tell the loop's time."""
    with (
        mock.patch.object(time, "monotonic", loop.time),
        mock.patch.object(time, "perf_counter", loop.time),
        mock.patch.object(time, "time", lambda: _EPOCH_S + loop.time()),
    ):
        yield
