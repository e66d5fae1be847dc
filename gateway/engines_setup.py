"""From the settings to the engines: the only file that names their classes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from engines.breaker import Breaker
from engines.engine import Engine, EngineInfo, Price
from engines.guard import Guard, Limits
from engines.openai_http import OpenAIHTTP, Timeouts
from gateway.config import (
    Config,
    EngineSettings,
    OpenAIEngine,
    SimulatedEngineSettings,
    TimeoutSettings,
    Upstream,
)

if TYPE_CHECKING:
    from engines.simulated_world import World

UPSTREAM = "upstream"
"""The default upstream's name among the engines."""


def engines(config: Config) -> dict[str, Engine]:
    """Every configured engine by name, each with its guard."""
    return {
        name: _guard(name, _engine(name, settings), settings) for name, settings in config.engines.items()
    }


def _engine(name: str, settings: OpenAIEngine | SimulatedEngineSettings) -> Engine:
    price = Price(settings.price.input_usd_per_mtok, settings.price.output_usd_per_mtok)
    info = EngineInfo(name, settings.model, price, settings.context_tokens)
    if isinstance(settings, OpenAIEngine):
        return OpenAIHTTP(
            info,
            settings.base_url,
            authorization=f"Bearer {settings.api_key.get_secret_value()}" if settings.api_key else None,
            extra_headers={name: value.get_secret_value() for name, value in settings.headers.items()},
            timeouts=_timeouts(settings.timeouts),
        )
    # Only the demo and tests need a world; building one takes time and memory.
    from engines.simulated import SimulatedEngine

    return SimulatedEngine(
        info,
        role=settings.role,
        world=_world(settings.seed, settings.facts),
        ttft_ms=settings.ttft_ms,
        token_ms=settings.token_ms,
        capacity=settings.capacity,
        pace=settings.pace,
    )


@lru_cache(maxsize=4)
def _world(seed: int, facts: int) -> World:
    """The lead and the understudy live in one world; it never changes, so they share the object."""
    from engines.simulated_world import World

    return World(seed, facts)


def _guard(name: str, engine: Engine, settings: EngineSettings) -> Guard:
    limits = Limits(
        settings.max_in_flight, settings.max_queued, settings.retries.attempts, settings.retries.max_wait_s
    )
    return Guard(
        engine, limits, Breaker(name, failures=settings.breaker.failures, open_s=settings.breaker.open_s)
    )


def upstream(settings: Upstream) -> OpenAIHTTP:
    """The default upstream. No guard: it is passed through, not managed."""
    return OpenAIHTTP(
        EngineInfo(UPSTREAM),
        settings.base_url,
        authorization=f"Bearer {settings.api_key.get_secret_value()}" if settings.api_key else None,
        extra_headers={name: value.get_secret_value() for name, value in settings.headers.items()},
        timeouts=_timeouts(settings.timeouts),
    )


def _timeouts(settings: TimeoutSettings) -> Timeouts:
    return Timeouts(settings.connect_s, settings.first_chunk_s, settings.gap_s, settings.total_s)
