"""Puts the gateway of another configuration in the place of the one that serves in this process.

In two steps, so that several workers change together or not at all: `prepare` builds it, which is where it fails; `commit`
has it answer what comes from then on. Requests that are open end on the gateway they began on.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import Any

import structlog

from gateway.log import configure
from understudy.build import CannotStart, Gateway
from understudy.lasting import Lasting
from understudy.parts import Parts
from understudy.processes.garbage_collection import collect_now
from understudy.settings.config import Config

log = structlog.get_logger(__name__)

Message = tuple[Any, ...]
"""From a supervisor to a worker: its verb, and what belongs to it."""
_SHOWN_CHARACTERS = 300


class Reloading:
    """For the event loop's thread. `aclose` ends everything, also what was there before."""

    def __init__(self, lasting: Lasting, gateway: Gateway) -> None:
        self._lasting = lasting
        self._gateway = gateway
        self._prepared: Gateway | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._adopting = asyncio.Lock()
        self.handle = lasting.handle
        """Answers a request; see gateway.server.serve."""

    def start(self) -> None:
        """Begin to serve. Inside the running loop."""
        self._gateway.start()

    async def told(self, message: Message) -> str | None:
        """Do what the supervisor says: ("prepare", config), ("commit",) or ("give up", why). Gives why it failed."""
        try:
            match message:
                case ("prepare", config):
                    await self.prepare(config)
                case ("commit",):
                    await self.commit()
                case ("give up", why):
                    await self.give_up(why)
        except (CannotStart, OSError) as error:
            return str(error)
        except Exception as error:
            log.error("reload_failed", error=error)
            return f"{type(error).__name__}: {error}"
        return None

    async def prepare(self, config: Config) -> None:
        """Build the gateway of a configuration that was validated. Raises what that does, CannotStart above all."""
        await self._drop()
        parts = Parts()
        build = partial(Gateway, config, lasting=self._lasting, parts=parts)
        try:
            gateway = await asyncio.to_thread(build)
            await asyncio.to_thread(gateway.before_serving)
        except BaseException:
            await parts.aclose()
            raise
        self._prepared = gateway

    async def commit(self) -> None:
        """Serve by what was prepared."""
        gateway, self._prepared = self._prepared, None
        assert gateway is not None, "prepare, then commit"
        before, self._gateway = self._gateway, gateway
        gateway.start()
        configure(gateway.config.log.level, for_terminal=sys.stderr.isatty())
        self._lasting.reload_problem = ""
        self._lasting.metrics.reloads.labels("done").inc()
        log.info("reloaded", config=gateway.config_hash)
        task = asyncio.get_running_loop().create_task(
            self._end(before, gateway), name="earlier configuration"
        )
        self._ending.add(task)
        task.add_done_callback(self._ended)

    async def give_up(self, why: str) -> None:
        """Keep what serves. `why` is told to those who look; empty where nothing was wrong."""
        await self._drop()
        self._lasting.reload_problem = why[:_SHOWN_CHARACTERS]
        if why:
            self._lasting.metrics.reloads.labels("refused").inc()

    async def aclose(self) -> None:
        """End everything, once the server has ended."""
        await self._lasting.over.aclose()
        await self._drop()
        if self._ending:
            await asyncio.wait(self._ending)
        await self._gateway.aclose()
        await self._lasting.aclose()

    async def _drop(self) -> None:
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            await prepared.aclose()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """The earlier configuration's parts refer to each other, and the collector would look only after many requests."""
        self._ending.discard(task)
        collect_now()

    async def _end(self, before: Gateway, now: Gateway) -> None:
        try:
            async with self._adopting:
                await asyncio.to_thread(now.adopt_memory)
            await before.drained()
        except Exception as error:
            log.error("earlier_configuration_ends_badly", error=error)
