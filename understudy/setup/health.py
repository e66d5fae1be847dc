"""Asks engines how they are, and counts who waits for them."""

from __future__ import annotations

from functools import partial

import structlog

from engines.servers.prober import Pace, Prober
from engines.servers.server import Server
from engines.servers.standing import Since
from understudy.built import Built
from understudy.settings.knobs import knobs_of

log = structlog.get_logger(__name__)


def add_to(built: Built) -> None:
    """Start the engines, and look at them from then on."""
    engines, parts, metrics = built.engines, built.parts, built.metrics
    parts.add(engines, start=engines.start, aclose=engines.aclose)

    def stands(server: Server, since: Since, was: Since | None) -> None:
        info = server.info
        metrics.engine_stands(info.name, info.replica, since.state)
        if was is not None:
            log.info("engine_state", engine=info.name, replica=info.replica, state=since.state, was=was.state)

    prober = Prober(engines.servers, knobs_of(Pace, built.config.health), stands)
    parts.add(prober, start=prober.start, aclose=prober.aclose)
    for name, engine in engines.managed.items():
        engine.line.on_change = partial(metrics.waits, name)
        engine.placing.on_placed = partial(metrics.placed, name)
