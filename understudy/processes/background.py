"""A process that answers no requests: it keeps the memory in order, and tells its health."""

from __future__ import annotations

import asyncio
import sys
from functools import partial

import structlog

from gateway.endpoints.health import Health
from gateway.log import configure
from understudy.lasting import Lasting, scores
from understudy.processes.reloading import Message
from understudy.settings.config import Config
from understudy.settings.reloading import digest_of

log = structlog.get_logger(__name__)


class Background:
    """The stand of understudy.processes.reloading.Reloading in such a process."""

    def __init__(self, lasting: Lasting, config: Config) -> None:
        """`config`: with memory. What `lasting` holds is closed with it."""
        self._lasting = lasting
        self._config = config
        self._prepared: Config | None = None
        memory = lasting.memory
        assert memory is not None, "understudy.processes.run starts no such process without memory"
        self._memory = memory
        health = Health(
            lasting.metrics,
            problems=memory.problems,
            impaired=self._impaired,
            settled=partial(asyncio.to_thread, memory.settled),
            config=digest_of(config),
        )
        self.handle = health.only
        """Answers a request; see gateway.server.serve."""

    def start(self) -> None:
        """Nothing: the memory works since it was opened."""
        self._lasting.metrics.config_is(digest_of(self._config))

    async def told(self, message: Message) -> str | None:
        """Do what the supervisor says; see understudy.processes.reloading. Gives why it failed."""
        match message:
            case ("prepare", config):
                self._prepared = config
            case ("give up", _):
                self._prepared = None
            case ("commit",) if self._prepared is not None:
                self._config, self._prepared = self._prepared, None
                return await self._adopted(self._config)
        return None

    async def aclose(self) -> None:
        """Finish the chore at hand and close the store."""
        await self._lasting.over.aclose()
        await self._lasting.aclose()

    async def _adopted(self, config: Config) -> str | None:
        settings = config.memory
        try:
            if settings is not None:
                retention = config.retention
                await asyncio.to_thread(self._memory.adopt, settings, retention, scores=scores(config))
        except Exception as error:
            log.error("reload_failed", error=error)
            return f"{type(error).__name__}: {error}"
        configure(config.log.level, for_terminal=sys.stderr.isatty())
        log.info("reloaded", config=digest_of(config))
        return None

    def _impaired(self) -> list[str]:
        problem = self._memory.store.problem()
        return [] if problem is None else [problem]
