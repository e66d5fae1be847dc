"""Builds a gateway: opens its memory, adds its features, and puts the entry before them."""

from __future__ import annotations

from gateway.endpoints.health import Health
from gateway.entry import EntryHandler
from gateway.routes import RouteTable
from gateway.telemetry.trace_context import continued
from router.finished import Journey
from understudy.built import Built, EnginesAs
from understudy.cannot_start import CannotStart
from understudy.features import add_features
from understudy.settings.config import Config
from understudy.settings.doubts import doubts
from understudy.settings.reloading import digest_of
from understudy.setup.scraping import reads_people
from understudy.setup.unknown_tenants import unknown_tenants

__all__ = ["CannotStart", "Gateway"]


class Gateway:
    """A built gateway: `handle` answers requests, `start` begins what works beside them, `aclose` ends all of it.

    A worker has one, from its start to its end: another configuration is another worker's.
    """

    def __init__(
        self,
        config: Config,
        *,
        engines_as: EnginesAs | None = None,
        chores: bool = True,
    ) -> None:
        """Open the memory and build everything on it. Blocks. Raises CannotStart.

        `engines_as` may put others in the place of the configured engines: the replay of a log does. `chores`: this process
        is among those that keep the memory in order.
        """
        self.config = config
        self.config_hash = digest_of(config)
        self.refused = ""
        """Why the latest configuration is not the one that serves; empty if it is."""
        built = self.built = Built(config, engines_as, chores=chores)
        self.parts, self.metrics, self.memory = built.parts, built.metrics, built.memory
        add_features(built)
        self.pipeline = built.pipeline
        self.handle = built.door = EntryHandler(
            self._routes(),
            built.keys,
            built.admission,
            built.limiter,
            began=built.began,
            ended=self._ended,
            bills=built.bills,
            answers_preflights=bool(config.models or config.listen.cors),
            guardrails=built.guardrails,
            trace_of=continued(config.otel.advanced.sampled_share) if built.telemetry is not None else None,
        )

    def refuse(self, why: str) -> None:
        """Note why the latest configuration is not taken, for those who look."""
        self.refused = why
        self.metrics.refused.inc()

    def start(self) -> None:
        """Start what works in the background. Inside the running loop."""
        self.parts.start()
        self.built.bills.rows = self.memory is not None and self.memory.requests is not None
        self.metrics.config.labels(self.config_hash).set(1)

    def problems(self) -> list[str]:
        """What keeps this gateway from serving as configured; empty when it is ready."""
        return [*(self.memory.problems() if self.memory else ()), *self._engines_down()[0]]

    def impaired(self) -> list[str]:
        """What requests are served without, although it is configured; empty when nothing is missing."""
        problem = self.memory.store.problem() if self.memory is not None else None
        refused = self.refused
        told = [problem, f"the configuration could not be loaded anew: {refused}" if refused else None]
        return [*filter(None, told), *self._engines_down()[1]]

    def _engines_down(self) -> tuple[list[str], list[str]]:
        """Why no model can be answered, and why some cannot: one of the two is empty."""
        down = [self.built.engines.problem(model.engines) for model in self.config.models.values()]
        told = list(filter(None, dict.fromkeys(down)))
        # What `models` does not name goes to the upstream, of which nothing is known.
        return (told, []) if self.built.upstream is None and all(down) else ([], told)

    def warnings(self) -> list[str]:
        """Settings that can be used and are most likely not what was meant."""
        memory = self.memory
        unknown = unknown_tenants(self.config, memory.store.keys) if memory is not None else []
        return [*doubts(self.config), *(one.told for one in unknown)]

    def settled(self) -> bool:
        """Whether everything answered so far is committed and findable. Blocks for a read."""
        # In this order: what a keeper hands over, the recorder follows, and the store then has to write.
        return self._handed_over() and (self.memory is None or self.memory.settled())

    async def _is_settled(self) -> bool:
        return self.settled() if self.memory is None else await self.memory.store.reads(self.settled)

    def _handed_over(self) -> bool:
        """Whether everything it answered so far was handed over to the store."""
        kept, recorder = self.built.embeddings_kept, self.built.recorder
        return (kept is None or kept.settled()) and (recorder is None or recorder.settled())

    async def aclose(self) -> None:
        """Stop judging, close engines, finish remembering, close the store."""
        await self.parts.aclose()

    def _ended(self, ended: Journey) -> None:
        """A request ended that never reached the pipeline."""
        built = self.built
        if self.memory is not None:
            built.load.ended()
        if built.books is not None and built.recorder is not None:
            built.books.take(ended, built.recorder.follow)
        built.report(ended)

    def _routes(self) -> RouteTable:
        health = Health(
            self.metrics,
            problems=self.problems,
            impaired=self.impaired,
            settled=self._is_settled,
            warnings=self.warnings,
            reads_people=reads_people(self.memory),
            config=self.config_hash,
        )
        return RouteTable(
            prefixes=self.config.listen.advanced.prefixes,
            own={
                ("GET", "/healthz"): health.healthz,
                ("GET", "/readyz"): health.readyz,
                ("GET", "/metrics"): health.metrics,
            },
            endpoints=self.built.endpoints,
            otherwise=self.built.otherwise,
        )
