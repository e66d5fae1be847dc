"""What applications are run on: some simulated engines and whoever sits before them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.applications.client_side import MODEL, Balancer, LeastQueue, RoundTrips, engines_of, played
from benchmarks.batching.batch import ENGINE_OF_2024, ENGINE_OF_TODAY, Rules, Speed
from benchmarks.batching.engine import BatchingEngine, Served
from engines.engine import EngineRequest
from loadtest.applications.shapes import Application, Call

CAP_TOKENS = 4_096
"""What Parrot's baseline lets run at once, to hold 40 ms per token (section 8.1)."""
CAPPED = Rules(prefix_cache=False, cap_tokens=CAP_TOKENS)
"""An engine of 2024 kept for latency."""
UNCAPPED = Rules(prefix_cache=False)
"""An engine of 2024 kept for throughput."""
TODAY = Rules()
"""An engine of today: a prefix cache, no cap."""
SPEEDS = {"today": ENGINE_OF_TODAY, "2024": ENGINE_OF_2024}
"""Those of today first: their baseline batches and caches by itself."""


@dataclass(slots=True)
class Log:
    """What the engines served, by kind of application."""

    served: list[tuple[str, Served]] = field(default_factory=list)

    def note(self, served: Served, request: EngineRequest) -> None:
        """See BatchingEngine."""
        assert request.chat is not None
        self.served.append((request.chat.fields["user"], served))

    def of(self, kind: str) -> list[Served]:
        """Those of one kind."""
        return [one for name, one in self.served if name == kind]

    @property
    def cached_share(self) -> float:
        """Share of all prompt tokens that a prefix cache had."""
        prompts = sum(one.prompt_tokens for _, one in self.served)
        return sum(one.cached_tokens for _, one in self.served) / prompts if prompts else 0.0


class Service(Protocol):
    """Serves clients that are 200 to 300 ms away."""

    log: Log
    engines: list[BatchingEngine]

    async def call(self, call: Call, kind: str) -> None:
        """One call that is all of its application."""
        ...

    async def application(self, application: Application) -> None:
        """A whole application, until its client has the result."""
        ...


@dataclass(frozen=True, slots=True)
class Site:
    """What a service is built of. `count` engines of one kind; `seed` of the round trips."""

    speed: Speed = ENGINE_OF_2024
    rules: Rules = CAPPED
    count: int = 1
    seed: int = 1
    tokens: int | None = None
    """The gateway's own cap (`tokens_in_flight`)."""
    latency_tokens: int | None = CAP_TOKENS
    """The gateway's own cap while somebody waits for one answer (`latency_tokens_in_flight`)."""


Serving = AbstractAsyncContextManager[Service]


class ClientSide:
    """Clients carry their applications out themselves, over a balancer."""

    def __init__(self, site: Site, balancer: type[Balancer]) -> None:
        self.log = Log()
        self.engines = engines_of(site.count, site.speed, site.rules, self.log.note)
        self._balancer = balancer(self.engines)
        self._trips = RoundTrips(site.seed)

    async def call(self, call: Call, kind: str) -> None:
        """See Service."""
        await self._trips.call(lambda: self._balancer.ask({**call.fields(MODEL), "user": kind}))

    async def application(self, application: Application) -> None:
        """See Service."""
        await played(application, self._balancer.ask, self._trips)


@asynccontextmanager
async def client_side(site: Site, balancer: type[Balancer] = LeastQueue) -> AsyncIterator[Service]:
    """A service without us."""
    yield ClientSide(site, balancer)
