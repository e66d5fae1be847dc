"""A variable in this process's memory: what was said of it so far, and who waits for it."""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

from workflows.progress import Failure, Variable, VariableState
from workflows.values import Held

Waiting: TypeAlias = dict[asyncio.Future[None], None]
"""In the order in which they came."""


class Cell(Variable):
    """One variable, written once. For the event loop's thread only.

    `attempt` counts how often its text began anew because a process died.
    """

    __slots__ = (
        "__weakref__",
        "_pieces",
        "_waiting",
        "_waiting_for_end",
        "app",
        "attempt",
        "calls",
        "end_user",
        "expires_at_s",
        "finish_reason",
        "kept",
        "private",
        "readers",
        "run",
        "shared",
        "tenant",
    )

    def __init__(
        self,
        id: str,
        name: str = "",
        tenant: str = "",
        *,
        app: str = "",
        run: str = "",
        end_user: str = "",
        private: bool = False,
    ) -> None:
        super().__init__(id, name)
        self.tenant = tenant
        self.app = app
        self.run = run
        self.end_user = end_user
        """Its end user, as a digest, if each end user has a memory of their own."""
        self.private = private
        """Its value is stored nowhere (no-store)."""
        self.attempt = 0
        self.finish_reason = "stop"
        """Why the answer that it holds ended, as its engine said; nothing of it is stored."""
        self.calls: list[dict[str, Any]] = []
        """Calls of the client's tools in that answer; nothing of them is stored."""
        self.kept = False
        """Its end is committed: what is told of it stays true when this process is killed."""
        self.readers = 0
        """The number of those who read it as a stream in this process."""
        self.shared = False
        """Another process reads it as a stream: its text is stored as it comes."""
        self.expires_at_s: float | None = None
        self._pieces: list[str] = []
        self._waiting: Waiting = {}
        self._waiting_for_end: Waiting = {}
        """Those that no piece of its text wakes: a get wants the whole."""

    @property
    def text(self) -> str:
        """Return what was said so far; of a list, nothing."""
        if isinstance(self.held, str):
            return self.held
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def begin(self, attempt: int) -> None:
        """Its step is asked again: nothing is said yet."""
        self.attempt, self.state = attempt, VariableState.PENDING
        self._pieces = []

    def say(self, piece: str) -> None:
        """More of its text."""
        self.state = VariableState.STREAMING
        self._pieces.append(piece)
        self._tell()

    def become(self, held: Held | None) -> None:
        """It has its value."""
        super().become(held)
        self._pieces = []
        self._tell()

    def fail(self, failure: Failure) -> None:
        """It will never have one."""
        super().fail(failure)
        self._pieces = []
        self._tell()

    def keep(self) -> None:
        """Its end is committed."""
        self.kept = True
        self._tell()

    async def changed(self) -> None:
        """Return when anything of it has changed."""
        await _told(self._waiting)

    async def until_ended(self, *, kept: bool = False) -> None:
        """Return when it has ended; `kept`: and its end is committed."""
        while not self.ended or (kept and not self.kept):
            await _told(self._waiting_for_end)

    def _tell(self) -> None:
        _wake(self._waiting)
        if self.ended:
            _wake(self._waiting_for_end)


async def _told(waiting: Waiting) -> None:
    """Return when those that wait are woken."""
    one = asyncio.get_running_loop().create_future()
    waiting[one] = None
    try:
        await one
    finally:
        waiting.pop(one, None)


def _wake(waiting: Waiting) -> None:
    for one in tuple(waiting):
        if not one.done():
            one.set_result(None)
    waiting.clear()
