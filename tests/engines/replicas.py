"""An engine with several replicas, each over its own upstream."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from engines.breaker import Breaker
from engines.caps import Caps
from engines.line import Line
from engines.replicas import Replica, Replicas
from tests.engines.asking import PATIENT, engine
from tests.knobs import breaker as usual_breaker
from tests.knobs import guard_of, limits


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
) -> AsyncIterator[Replicas]:
    """One replica per port, called `r0`, `r1` and so on. Ends with no place taken."""
    line = Line(max_queued, caps, clock)
    async with AsyncExitStack() as stack:
        made = []
        for place, port in enumerate(ports):
            one = await stack.enter_async_context(engine(port, name, PATIENT))
            one.info = replace(one.info, **({"replica": f"r{place}", "attempts": 2} | info))
            within = limits(max_in_flight=max_in_flight, max_queued=max_queued)
            guard = guard_of(one, within, breaker(), line=line)
            made.append(Replica(guard, weights[place] if weights else 1.0))
        found = Replicas(made, line)
        yield found
        assert [guard.in_flight for guard in found.guards] == [0] * len(ports) and found.line.waiting == 0
