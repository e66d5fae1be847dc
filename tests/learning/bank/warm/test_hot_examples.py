"""A worker follows the plan, per tenant, and goes on with the last one when it cannot be read."""

from __future__ import annotations

from learning.bank.warm.hot_examples import HotExamples
from store.jobs.kv_plans import KvPlanExample


class Plans:
    def __init__(self) -> None:
        self.rows = [(3, "a"), (1, "b"), (2, "a")]
        self.news = 0
        self.broken = False

    def examples(self, engine: str) -> list[KvPlanExample]:
        assert engine == "small"
        if self.broken:
            raise OSError("disk")
        return [KvPlanExample(id, tenant, 10, 1.0) for id, tenant in self.rows]

    def generation(self) -> int:
        return self.news


def test_places_are_per_tenant_and_follow_the_plan() -> None:
    plans = Plans()
    hot = HotExamples(plans, "small")
    assert (hot.places("a"), hot.places("b"), hot.places("c")) == ({3: 0, 2: 1}, {1: 0}, {})
    plans.rows = [(2, "a")]
    assert hot.places("a") == {3: 0, 2: 1}, "nothing was said to have changed"
    plans.news = 1
    assert hot.places("a") == {2: 0}
    plans.broken, plans.news, plans.rows = True, 2, [(7, "a")]
    assert hot.places("a") == {2: 0}
    assert HotExamples(plans, "small").places("a") == {}
    plans.broken = False
    assert hot.places("a") == {7: 0}, "a change that could not be read is not forgotten"
