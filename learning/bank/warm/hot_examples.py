"""The places of an engine's most used examples in its prompts, as a worker reads them from the stored plan."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from store.jobs.kv_plans import KvPlans

log = structlog.get_logger(__name__)


class HotExamples:
    """One engine's plan, read again when it changed. Any thread may ask; a plan read twice at once does no harm."""

    def __init__(self, plans: KvPlans, engine: str) -> None:
        self._plans = plans
        self._engine = engine
        self._places: dict[str, dict[int, int]] | None = None
        self._read_at = -1
        self._broken = False

    def places(self, tenant: str) -> Mapping[int, int]:
        """A tenant's example ids to their places, 0 first; empty without a plan, or where it cannot be read."""
        try:
            # Asked first: what is put while it is being read is seen the next time.
            generation = self._plans.generation()
            if generation != self._read_at:
                self._places = self._read()
                self._read_at = generation
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
