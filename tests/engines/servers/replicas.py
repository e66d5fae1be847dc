"""An engine with several replicas, each over its own upstream."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from engines.servers.breaker import Breaker
from engines.servers.caps import Caps
from engines.servers.server import Server
from engines.servers.servers import Servers
from tests.engines.asking import PATIENT, engine
from tests.knobs import breaker as usual_breaker
from tests.knobs import limits


@asynccontextmanager
async def replicas(
    *ports: int,
    name: str = "pool",
    weights: Sequence[float] | None = None,
    max_in_flight: int = 256,
    max_queued: int = 256,
    breaker: Callable[[], Breaker] = usual_breaker,
    caps: Caps | None = None,
    clock: Callable[[], float] = time.monotonic,
    **info: Any,
) -> AsyncIterator[Servers]:
    """One replica per port, called `r0`, `r1` and so on. Ends with no place taken."""
    caps = caps or Caps()
    within = limits(
        max_in_flight=max_in_flight,
        max_queued=max_queued,
        tokens_in_flight=caps.tokens,
        latency_tokens_in_flight=caps.latency_tokens,
    )
    async with AsyncExitStack() as stack:
        made = []
        for place, port in enumerate(ports):
            one = await stack.enter_async_context(engine(port, name, PATIENT))
            one.info = replace(one.info, **({"replica": f"r{place}", "attempts": 2} | info))
            weight = weights[place] if weights else 1.0
            made.append(Server(one, within, breaker(), weight=weight))
        found = Servers(made, clock)
        yield found
        assert [server.in_flight for server in found.servers] == [0] * len(ports) and found.line.waiting == 0
