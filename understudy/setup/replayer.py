"""From the settings to a replayer at work: store, engines, the gate that traffic closes, the usual week it is set by."""

from __future__ import annotations

import asyncio
import json
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
from learning.bank.warm.metrics import KvMetrics
from learning.bank.warm.planner import KvPlanner, Room
from learning.bank.warm.value import Line, kv_bytes_per_token
from learning.replay.asking import MayGoOn
from learning.replay.off_peak import UsualWeek, usual_week
from learning.replay.off_peak_gate import OffPeakGate, Quiet
from learning.replay.replay import Replay
from learning.replay.replayer import Replayer
from learning.replay.schedule import WINDOW_S, Schedule
from router.digest import NO_INSTRUCTIONS, asked_under, scope_of
from store.decisions.hourly_load import HOUR_S, first_request_s, hourly_load
from store.examples.instructions import instructions_of
from store.jobs.live_load import live_load
from store.jobs.replay_records import ReplayRun
from store.records import Example
from store.sqlite.database import Database
from understudy.memory import Memory
from understudy.settings.config import Config
from understudy.settings.replay import KvPlanEngineSettings, ReplayAdvanced, time_zone
from understudy.setup.engines import Tenants, engines
from understudy.setup.replay import CannotReplay, budget_of, replay

log = structlog.get_logger(__name__)

_LEARN_AGAIN_S = 3600.0
_WEEK_S = 7 * 24 * 3600
_WEEKS = 4
"""Weeks of requests from which a usual week is learnt."""
_QUIET_SHARE = 0.25
"""Share of a usual week's hours that counts as quiet: the quietest ones."""
_NO_SCOPE = scope_of(NO_INSTRUCTIONS)


@asynccontextmanager
async def replayer(config: Config) -> AsyncIterator[list[Coroutine[Any, Any, None]]]:
    """What the process does, each to be run as a task until it is cancelled; closed at the end.

    Raises what understudy.memory.Memory.open raises. Settings that nothing can be replayed with are told in the log.
    """
    assert config.memory is not None and config.memory.data_dir is not None, (
        "checked by understudy.settings.config"
    )
    folder = config.memory.data_dir
    memory = await asyncio.to_thread(Memory.open, config.memory)
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
    quiet = Quiet(settings.advanced.min_in_flight, settings.advanced.calm_s)
    gate = OffPeakGate(lambda: live_load(folder), quiet)
    habits = Habits(memory.store.db, settings.advanced, time_zone(settings.time_zone), quiet)
    parts: list[Coroutine[Any, Any, None]] = [gate.watch(), habits.keep_learning()]
    try:
        whole = replay(config, memory, made, registry)
    except CannotReplay as error:
        log.error("cannot_replay", reason=str(error))
    else:
        schedule = Schedule(
            settings.cron,
            habits.zone,
            WINDOW_S,
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
        rooms = _rooms(config)
        if rooms:
            parts.append(_kv_planner(config, memory, made, rooms, gate, KvMetrics(registry)).run())
    return parts


async def _carry_out(whole: Replay, run_id: int, may_go_on: MayGoOn) -> ReplayRun:
    return await whole.take_up(run_id, may_go_on=may_go_on)


def _rooms(config: Config) -> dict[str, Room]:
    plan = config.replay.advanced.kv_plan
    rooms = {}
    for name, settings in plan.engines.items():
        try:
            rooms[name] = room(name, settings, warm=plan.warm)
        except ValueError as error:
            log.error("kv_plan_off", engine=name, reason=str(error))
    return rooms


def _kv_planner(
    config: Config,
    memory: Memory,
    made: Mapping[str, Engine],
    rooms: Mapping[str, Room],
    gate: OffPeakGate,
    metrics: KvMetrics,
) -> KvPlanner:
    db = memory.store.db

    def fields_of(example: Example) -> dict[str, Any] | None:
        known = instructions_of(db, example.tenant, example.scope)
        if known is None and example.scope == _NO_SCOPE:
            known = NO_INSTRUCTIONS
        return None if known is None else asked_under(known, example.question)

    return KvPlanner(
        db,
        memory.store.examples,
        made,
        rooms,
        fields_of,
        gate.may_go_on,
        config.replay.advanced.kv_plan.every_s,
        metrics,
    )


class Habits:
    """Learns, again every hour, what a usual week looks like, and sets the gate's limit by it."""

    def __init__(self, db: Database, settings: ReplayAdvanced, zone: tzinfo, quiet: Quiet) -> None:
        self.zone = zone
        self.week = usual_week({}, first_hour=0, end_hour=0, zone=zone, quiet_share=_QUIET_SHARE)
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
        first = math.ceil(max(now_s - _WEEKS * _WEEK_S, now_s if began_s is None else began_s) / HOUR_S)
        end = int(now_s // HOUR_S)
        hours = hourly_load(self._db, since_s=first * HOUR_S, until_s=end * HOUR_S)
        self.week = usual_week(
            {hour.hour: hour.busy_s for hour in hours},
            first_hour=first,
            end_hour=end,
            zone=self.zone,
            quiet_share=_QUIET_SHARE,
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


def room(name: str, settings: KvPlanEngineSettings, *, warm: bool) -> Room:
    """From the settings. Raises ValueError, naming the setting, where nobody says how large keys and values are."""
    size = settings.bytes_per_token
    if size is None:
        where = f"replay.advanced.kv_plan.engines.{name}"
        if settings.model_dir is None:
            raise ValueError(f"{where}: set bytes_per_token, or model_dir")
        try:
            size = kv_bytes_per_token(json.loads(Path(settings.model_dir, "config.json").read_text("utf-8")))
        except (OSError, ValueError) as error:
            raise ValueError(f"{where}.model_dir: {error}") from error
    blocks = int(settings.kv_mib * 2**20) // (size * settings.block_tokens)
    load = Line(settings.load_ms, settings.load_ms_per_ktok / 1000)
    return Room(blocks, settings.block_tokens, load, warm)
