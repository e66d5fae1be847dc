"""From the settings to a replayer at work: store, engines, the gate that traffic closes, the usual week it is set by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from engines.engine import Engine
from learning.bank.warm.prefixes import KvMetrics, PrefixWarmer
from learning.replay.nightly import WINDOW_S, Replayer, Schedule
from learning.replay.off_peak import LEAST_IN_FLIGHT, OffPeakGate, Quiet, UsualTraffic
from store.jobs.live_load import live_load
from understudy.memory import Memory
from understudy.settings.config import Config
from understudy.settings.replay import time_zone
from understudy.setup.engines import Tenants, engines
from understudy.setup.replay import CannotReplay, budget_of, replay

log = structlog.get_logger(__name__)

_WEEKS = 4
"""Weeks of requests from which a usual week is learnt."""
_QUIET_SHARE = 0.25
"""Share of a usual week's hours that counts as quiet: the quietest ones."""


@asynccontextmanager
async def replayer(config: Config) -> AsyncIterator[list[Coroutine[Any, Any, None]]]:
    """What the process does, each to be run as a task until it is cancelled; closed at the end.

    Raises what understudy.memory.Memory.open raises. Settings that nothing can be replayed with are told in the log.
    """
    assert config.memory is not None and config.memory.data_dir is not None, (
        "checked by understudy.settings.config"
    )
    folder = config.memory.data_dir
    memory = await asyncio.to_thread(Memory.open, config.memory, config.retention)
    made = engines(config, Tenants(memory.store.secret, memory.store.keys.tenant_named))
    registry = CollectorRegistry()
    try:
        yield _parts(config, folder, memory, made, registry)
    finally:
        for engine in made.values():
            await engine.aclose()
        await asyncio.to_thread(memory.close)


def _parts(
    config: Config, folder: Path, memory: Memory, made: Mapping[str, Engine], registry: CollectorRegistry
) -> list[Coroutine[Any, Any, None]]:
    settings = config.replay
    quiet = Quiet(LEAST_IN_FLIGHT, settings.advanced.calm_s)
    store = memory.store
    gate = OffPeakGate(store.jobs.loads.now if store.shared else lambda: live_load(folder), quiet)
    usual = UsualTraffic(
        memory.store,
        quiet,
        time_zone(settings.time_zone),
        weeks=_WEEKS,
        quiet_share=_QUIET_SHARE,
    )
    parts: list[Coroutine[Any, Any, None]] = [gate.watch(), usual.keep_learning()]
    try:
        whole = replay(config, memory, made, registry)
    except CannotReplay as error:
        log.error("cannot_replay", reason=str(error))
    else:
        schedule = Schedule(
            settings.cron,
            usual.zone,
            WINDOW_S,
            lambda weekday: usual.week.quietest_hour(weekday),
        )
        takes_up = Replayer(
            whole.jobs,
            whole.take_up,
            gate.may_go_on,
            schedule,
            budget_of(config),
            memory.store.jobs.leases,
        )
        parts.append(takes_up.run())
        plan = settings.advanced.kv_plan
        if plan.engines:
            kept = {name: made[name] for name in plan.engines}
            warmer = PrefixWarmer(
                memory.store,
                kept,
                gate.may_go_on,
                KvMetrics(registry),
                most=plan.kept_examples,
                warm=plan.warm,
                every_s=plan.every_s,
            )
            parts.append(warmer.run())
    return parts
