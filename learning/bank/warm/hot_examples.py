"""Which examples an engine keeps warm, as a worker follows the plan: a dictionary look-up, and a query when it changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import structlog

from store.jobs.kv_plans import KvPlanExample

log = structlog.get_logger(__name__)


class Plans(Protocol):
    """What is needed of store.jobs.kv_plans.KvPlans."""

    def examples(self, engine: str) -> list[KvPlanExample]: ...

    def changed(self) -> bool: ...


class HotExamples:
    """One engine's plan. Called on the router's threads; a plan read twice at once does no harm."""

    def __init__(self, plans: Plans, engine: str) -> None:
        self._plans = plans
        self._engine = engine
        self._places: dict[str, dict[int, int]] | None = None
        self._broken = False

    def places(self, tenant: str) -> Mapping[int, int]:
        """A tenant's example ids to their places, 0 first; empty without a plan, or where it cannot be read."""
        try:
            # Asked first: what is put while it is being read is seen the next time.
            if self._plans.changed() or self._places is None:
                self._places = self._read()
            self._broken = False
        except Exception as error:
            # Only an order is lost: the request goes on.
            if not self._broken:
                log.error("kv_plan_unreadable", engine=self._engine, error=error)
            self._broken = True
        return (self._places or {}).get(tenant, {})

    def _read(self) -> dict[str, dict[int, int]]:
        read: dict[str, dict[int, int]] = {}
        for example in self._plans.examples(self._engine):
            of_tenant = read.setdefault(example.tenant, {})
            of_tenant[example.example_id] = len(of_tenant)
        return read
