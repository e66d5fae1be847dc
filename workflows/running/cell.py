"""A variable in this process's memory: what was said of it so far, and who waits for it."""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

from workflows.progress import Failure
from workflows.transform import Value

PENDING, STREAMING, READY, FAILED, CANCELLED = "pending", "streaming", "ready", "failed", "cancelled"
SKIPPED = "skipped"
Waiting: TypeAlias = dict[asyncio.Future[None], None]
"""In the order in which they came."""
ENDED = frozenset({READY, FAILED, CANCELLED, SKIPPED})


class Cell:
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
        "failure",
        "finish_reason",
        "id",
        "kept",
        "name",
        "private",
        "readers",
        "run",
        "shared",
        "state",
        "tenant",
        "value",
    )

    def __init__(
        self, id: str, tenant: str, *, name: str = "", app: str = "", run: str = "", end_user: str = ""
    ) -> None:
        self.id = id
        self.tenant = tenant
        self.name = name
        self.app = app
        self.run = run
        self.end_user = end_user
        """Whose it is, as a digest, where each end user has a memory of their own."""
        self.state = PENDING
        self.attempt = 0
        self.value: Value | None = None
        self.failure: Failure | None = None
        self.finish_reason = "stop"
        """Why the answer that it holds ended, as its engine said; nothing of it is stored."""
        self.calls: list[dict[str, Any]] = []
        """Calls of the client's tools in that answer; nothing of them is stored."""
        self.kept = False
        """Its end is committed: what is told of it stays true when this process is killed."""
        self.readers = 0
        """How many read it as a stream in this process."""
        self.shared = False
        """Another process reads it as a stream: its text is stored as it comes."""
        self.private = False
        """Its value is stored nowhere (no-store)."""
        self.expires_at_s: float | None = None
        self._pieces: list[str] = []
        self._waiting: Waiting = {}
        self._waiting_for_end: Waiting = {}
        """Those that no piece of its text wakes: a get wants the whole."""

    @property
    def ended(self) -> bool:
        """Whether it has its value, or never will."""
        return self.state in ENDED

    @property
    def text(self) -> str:
        """What was said so far; of a list, nothing."""
        if isinstance(self.value, str):
            return self.value
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def begin(self, attempt: int) -> None:
        """Its step is asked (again): nothing is said yet."""
        self.attempt, self.state = attempt, PENDING
        self._pieces = []

    def say(self, piece: str) -> None:
        """More of its text."""
        self.state = STREAMING
        self._pieces.append(piece)
        self._tell()

    def said(self, text: str, attempt: int) -> None:
        """All of its text so far, as another process tells."""
        self.state, self.attempt, self._pieces = STREAMING, attempt, [text]
        self._tell()

    def become(self, value: Value, *, held: bool = True) -> None:
        """It has its value; `held`: and it is in this process's reach."""
        self.state, self.value = READY, value if held else None
        self._pieces = []
        self._tell()

    def fail(self, failure: Failure, state: str = FAILED) -> None:
        """It will never have one."""
        self.state, self.failure = state, failure
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
