"""From the settings to a replayer at work: store, engines, the gate that traffic closes, the usual week it is set by."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import tzinfo
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from engines.engine import Engine
from learning.bank.warm.prefixes import KvMetrics, PrefixWarmer
from learning.replay.asking import MayGoOn
from learning.replay.off_peak import UsualWeek, usual_week
from learning.replay.off_peak_gate import OffPeakGate, Quiet
from learning.replay.replay import Replay
from learning.replay.replayer import Replayer
from learning.replay.schedule import Schedule
from store.decisions.hourly_load import HOUR_S, first_request_s, hourly_load
from store.jobs.live_load import live_load
from store.jobs.replay_records import ReplayRun
from store.sqlite.database import Database
from understudy.memory import Memory
from understudy.settings.config import Config
from understudy.settings.replay import OffPeakSettings, time_zone
from understudy.setup.engines import Tenants, engines
from understudy.setup.replay import CannotReplay, budget_of, replay

log = structlog.get_logger(__name__)

_LEARN_AGAIN_S = 3600.0
_WEEK_S = 7 * 24 * 3600


@asynccontextmanager
async def replayer(config: Config) -> AsyncIterator[list[Coroutine[Any, Any, None]]]:
    """What the process does, each to be run as a task until it is cancelled; closed at the end.

    Raises what understudy.memory.Memory.open raises. Settings that nothing can be replayed with are told in the log.
    """
    assert config.memory is not None and config.memory.data_dir is not None, (
        "checked by understudy.settings.config"
    )
    folder = config.memory.data_dir
    memory = await asyncio.to_thread(Memory.open, config.memory, versions_kept=config.learning.versions_kept)
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
    quiet = Quiet(settings.off_peak.min_in_flight, settings.off_peak.calm_s)
    gate = OffPeakGate(lambda: live_load(folder), quiet)
    habits = Habits(memory.store.db, settings.off_peak, time_zone(settings.time_zone), quiet)
    parts: list[Coroutine[Any, Any, None]] = [gate.watch(), habits.keep_learning()]
    try:
        whole = replay(config, memory, made, registry)
    except CannotReplay as error:
        log.error("cannot_replay", reason=str(error))
    else:
        schedule = Schedule(
            settings.cron,
            habits.zone,
            settings.window_h * 3600,
            lambda weekday: habits.week.quietest_hour(weekday),
        )
        takes_up = Replayer(
            whole.jobs,
            lambda run_id, may_go_on: _carry_out(whole, run_id, may_go_on),
            gate.may_go_on,
            schedule,
            budget_of(config),
            folder / "replayer.lock",
        )
        parts.append(takes_up.run())
        plan = settings.kv_plan
        if plan.engines:
            kept = {name: made[name] for name in plan.engines}
            warmer = PrefixWarmer(
                memory.store,
                kept,
                gate.may_go_on,
                KvMetrics(registry),
                most=plan.most,
                warm=plan.warm,
                every_s=plan.every_s,
            )
            parts.append(warmer.run())
    return parts


async def _carry_out(whole: Replay, run_id: int, may_go_on: MayGoOn) -> ReplayRun:
    return await whole.take_up(run_id, may_go_on=may_go_on)


class Habits:
    """Learns, again every hour, what a usual week looks like, and sets the gate's limit by it."""

    def __init__(self, db: Database, settings: OffPeakSettings, zone: tzinfo, quiet: Quiet) -> None:
        self.zone = zone
        self.week = usual_week({}, first_hour=0, end_hour=0, zone=zone, quiet_share=settings.quiet_share)
        self._db = db
        self._settings = settings
        self._quiet = quiet

    async def keep_learning(self) -> None:
        """Never returns."""
        while True:
            try:
                await asyncio.to_thread(self.learn, time.time())
            except Exception as error:
                # The last week known, or the floor, goes on being right enough.
                log.error("usual_week_unknown", error=error)
            await asyncio.sleep(_LEARN_AGAIN_S)

    def learn(self, now_s: float) -> UsualWeek:
        """Learn from the whole hours of the last weeks, the first one on record left out: it may have begun in its midst."""
        settings = self._settings
        began_s = first_request_s(self._db)
        first = math.ceil(
            max(now_s - settings.weeks * _WEEK_S, now_s if began_s is None else began_s) / HOUR_S
        )
        end = int(now_s // HOUR_S)
        hours = hourly_load(self._db, since_s=first * HOUR_S, until_s=end * HOUR_S)
        self.week = usual_week(
            {hour.hour: hour.busy_s for hour in hours},
            first_hour=first,
            end_hour=end,
            zone=self.zone,
            quiet_share=settings.quiet_share,
        )
        limit = max(settings.min_in_flight, self.week.limit)
        if settings.max_in_flight is not None:
            limit = min(limit, settings.max_in_flight)
        self._quiet.limit = limit
        log.info(
            "usual_week",
            hours=self.week.observed_hours,
            quiet_in_flight=round(self.week.quiet_in_flight, 3),
            limit=limit,
        )
        return self.week
