"""vLLM inside this process: started in the background, watched, restarted when it dies, and asked without a socket.

While it is not up, requests are refused with 503 and the reason: starting, or starting again after its processes died. Its
answers, errors included, are those of a vLLM server (engines.vllm_core), so everything said of one holds for the other.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engines.asgi import AppExchange, InProcess
from engines.engine import EngineInfo, EngineLoad, EngineRequest
from engines.errors import Unavailable
from engines.vllm_core import CannotStartEngine, Core, Started
from engines.vllm_dialect import Dialect
from engines.vllm_questions import TokenCounter

_LOOK_S = 0.25
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_STEADY_S = 300.0
"""An engine that lived this long was healthy: what went before does not count against its successor."""
_TELL_S = 10.0
_WORDS = 500
_DIED = "is starting again, its processes died"


Start = Callable[[], Started]
"""Blocks, for minutes, on a thread. Raises CannotStartEngine where trying again would not help."""
Open = Callable[[Any], Awaitable[Core]]
Tell = Callable[[str, str, Mapping[str, Any]], None]
"""(level, event, fields): how its life is told to the log."""


class VLLMLocal:
    """One engine of this process. `start` brings it up in the background; nothing runs before that.

    `first_pause_s`: before the first restart; doubled each time it dies again soon, up to a minute.
    """

    def __init__(
        self,
        info: EngineInfo,
        *,
        start: Start,
        open_: Open,
        dialect: Dialect | None = None,
        tell: Tell = lambda level, event, fields: None,
        first_pause_s: float = _FIRST_PAUSE_S,
    ) -> None:
        self.info = info
        self._start_blocking = start
        self._open = open_
        self._dialect = dialect or Dialect()
        self._tell = tell
        self._first_pause_s = first_pause_s
        self._core: Core | None = None
        self._api: InProcess | None = None
        self._tokens: TokenCounter | None = None
        self._why = "was not started"
        self._since: float | None = None
        """Since when it is on its way up (time.monotonic); None where it is not."""
        self._life: asyncio.Task[None] | None = None
        self._asks_window = info.context_tokens is None

    def start(self) -> None:
        """Begin to bring it up, and keep it up until `aclose`. Inside the running loop."""
        if self._life is None:
            self._why, self._since = "is starting", time.monotonic()
            self._life = asyncio.get_running_loop().create_task(self._live(), name=f"vllm {self.info.name}")

    @property
    def problem(self) -> str | None:
        """Why it cannot answer now; None while it can."""
        core = self._core
        if core is not None:
            return "its processes died" if core.dead else None
        return (
            self._why
            if self._since is None
            else f"{self._why} ({time.monotonic() - self._since:.0f} s so far)"
        )

    def stream(self, request: EngineRequest) -> AppExchange:
        """See engines.engine.Engine.stream. Raises Unavailable, at once, while it is not up."""
        api, problem = self._api, self.problem
        if api is None or problem is not None:
            raise Unavailable(
                f"The engine '{self.info.name}' {problem or 'is starting'}.",
                engine=self.info.name,
                retry_after_s=10,
            )
        return api.stream(self._dialect.prepared(request))

    def load(self) -> EngineLoad:
        """What the engine said after its last step."""
        if self._core is None or self._api is None:
            return EngineLoad(open=False)
        figures = self._core.figures
        # Steps end after requests begin: whoever is inside and not yet counted as running will be.
        running = max(figures.running, self._api.in_flight - figures.waiting)
        return EngineLoad(running, figures.waiting, kv_use=figures.kv_use, open=not self._core.dead)

    async def health(self) -> None:
        """See engines.engine.Engine.health."""
        if (problem := self.problem) is not None:
            raise Unavailable(f"The engine '{self.info.name}' {problem}.", engine=self.info.name)

    async def count_tokens(self, what: str | Sequence[Mapping[str, Any]]) -> int | None:
        """See engines.engine.CountsTokens."""
        return await self._tokens.count(what) if self._tokens is not None and self.problem is None else None

    async def aclose(self) -> None:
        """End the engine's processes, also while they start."""
        life, self._life = self._life, None
        if life is None:
            return
        life.cancel()
        await asyncio.wait([life])
        self._why, self._since = "was stopped", None

    async def _live(self) -> None:
        pause_s = self._first_pause_s
        while True:
            began, again = time.monotonic(), "is starting again, it failed to start"
            try:
                core = await self._up()
                again = _DIED
                self._tell("info", "engine_up", self._fields(took_s=round(time.monotonic() - began, 1)))
                await self._until_dead(core)
            except CannotStartEngine as error:
                self._why, self._since = f"cannot start: {error}", None
                self._tell("error", "engine_cannot_start", self._fields(reason=str(error)))
                return
            except Exception as error:
                # No request has come near it yet: its words are about the model and the machine.
                words = f"{type(error).__name__}: {error}"[:_WORDS]
                self._tell("error", "engine_failed_to_start", self._fields(reason=words))
            lived_s = time.monotonic() - began
            self._why, self._since = again, time.monotonic()
            if lived_s > _STEADY_S:
                pause_s = self._first_pause_s
            self._tell(
                "warning", "engine_restarting", self._fields(pause_s=pause_s, lived_s=round(lived_s, 1))
            )
            await asyncio.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)

    async def _up(self) -> Core:
        starting = asyncio.get_running_loop().run_in_executor(None, self._start_blocking)
        began = time.monotonic()
        try:
            while not (await asyncio.wait([starting], timeout=_TELL_S))[0]:
                self._tell("info", "engine_starting", self._fields(waited_s=round(time.monotonic() - began)))
        except asyncio.CancelledError:
            await _abandon(starting)
            raise
        started = starting.result()
        try:
            core = await self._open(started)
        except BaseException:
            await asyncio.to_thread(started.shutdown)
            raise
        self._core = core
        self._api = InProcess(core.application, prefix="/v1", engine=self.info.name)
        root = InProcess(core.application, prefix="", engine=self.info.name)
        self._tokens = TokenCounter(root.stream, self.info.model)
        if self._asks_window:
            self.info = replace(self.info, context_tokens=core.window_tokens)
        return core

    async def _until_dead(self, core: Core) -> None:
        try:
            # Nothing tells: vLLM notes its own death and goes on.
            while not core.dead:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_S)
            self._tell("error", "engine_died", self._fields())
        finally:
            # Before anybody can see that it is gone: ending what is left of it takes seconds.
            self._why, self._since = _DIED, time.monotonic()
            self._core = self._api = self._tokens = None
            await asyncio.to_thread(core.shutdown)

    def _fields(self, **more: Any) -> dict[str, Any]:
        return {"engine": self.info.name, **more}


async def _abandon(starting: asyncio.Future[Started]) -> None:
    """A start that nobody waits for any more: its processes are ended, so that the thread that waits for them ends too."""
    while not (await asyncio.wait([starting], timeout=0.5))[0]:
        for child in multiprocessing.active_children():
            if child.name.startswith("EngineCore"):
                # Politely it would first load its model; its own children end when it does.
                child.kill()
    if starting.exception() is None:
        await asyncio.to_thread(starting.result().shutdown)
