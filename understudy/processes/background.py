"""A process that answers no requests: it keeps the memory in order, and tells its health."""

from __future__ import annotations

import asyncio
from functools import partial

from gateway.endpoints.health import Health
from gateway.metrics import Metrics
from understudy.opening import opened
from understudy.settings.config import Config
from understudy.settings.reloading import digest_of


class Background:
    """Stands in the place of understudy.build.Gateway in such a process."""

    def __init__(self, config: Config) -> None:
        """`config`: with memory. Raises CannotStart."""
        assert config.memory is not None, "understudy.processes.run starts no such process without memory"
        self._hash = digest_of(config)
        self._metrics = Metrics()
        self._refused = ""
        self.memory = opened(config.memory, config)
        health = Health(
            self._metrics,
            problems=self.memory.problems,
            impaired=self._impaired,
            settled=partial(asyncio.to_thread, self.memory.settled),
            config=self._hash,
        )
        self.handle = health.only
        """Answers a request; see gateway.server.serve."""

    def start(self) -> None:
        """Say what it works by; the memory works since it was opened."""
        self._metrics.config.labels(self._hash).set(1)

    def refuse(self, why: str) -> None:
        """Note why the latest configuration is not taken, for those who look."""
        self._refused = why
        self._metrics.refused.inc()

    async def aclose(self) -> None:
        """Finish the chore at hand and close the store."""
        await asyncio.to_thread(self.memory.close)

    def _impaired(self) -> list[str]:
        refused = f"the configuration could not be loaded anew: {self._refused}" if self._refused else None
        return [*filter(None, (self.memory.store.problem(), refused))]
