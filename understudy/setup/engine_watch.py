"""Engines that an operator drains, and what becomes known of them: shared by all workers."""

from __future__ import annotations

from understudy.background.engine_watch import EngineWatch
from understudy.built import Built
from understudy.setup.engines import keys_of


def add_to(built: Built) -> None:
    """Follow what is said of engines, and say how they stand here."""
    states = built.remembered.store.jobs.engine_states
    watch = EngineWatch(
        states, built.engines.servers, keys=keys_of(built.config), stand_ins=built.engines.stand_ins
    )
    built.parts.add(watch, start=watch.begin)
    built.follow(watch)
