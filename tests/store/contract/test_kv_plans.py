"""A plan is taken whole in place of the last one, tells that it changed, and loses what is removed from the bank."""

from __future__ import annotations

import pytest

from store import Store
from store.jobs.kv_plans import KvPlanExample
from tests.store.rows import new_example


def planned(id: int, tenant: str = "a1") -> KvPlanExample:
    return KvPlanExample(id, tenant, 40, 2.5)


def test_a_plan_replaces_the_last_one_and_keeps_its_order(store: Store) -> None:
    bank, plans = store.examples, store.jobs.kv_plans
    one, two, three = (bank.add(new_example(n)).result(30).id for n in range(3))
    plans.put("small", [planned(three), planned(one)], {"examples": 2}, 10.0).result(30)
    plans.put("other", [planned(one)], {}, 11.0).result(30)
    plans.put("small", [planned(two), planned(three), planned(99)], {"examples": 3}, 12.0).result(30)
    assert [e.example_id for e in plans.examples("small")] == [two, three], "99 never existed"
    assert plans.examples("small")[0] == planned(two)
    assert [e.example_id for e in plans.examples("other")] == [one]
    assert [(p.engine, p.planned_at_s, p.figures) for p in plans.plans()] == [
        ("other", 11.0, {}),
        ("small", 12.0, {"examples": 3}),
    ]


def test_what_leaves_the_bank_leaves_the_plan(store: Store) -> None:
    bank, plans = store.examples, store.jobs.kv_plans
    one, two = (bank.add(new_example(n)).result(30).id for n in range(2))
    plans.put("small", [planned(one), planned(two)], {}, 10.0).result(30)
    bank.remove("a1", [one]).result(30)
    assert [e.example_id for e in plans.examples("small")] == [two]


def test_what_warming_cost_is_added_up_across_plans(store: Store) -> None:
    plans = store.jobs.kv_plans
    plans.put("small", [], {}, 10.0).result(30)
    plans.note_warmed("small", tokens=50, cached_tokens=0, usd=0.001).result(30)
    plans.put("small", [], {}, 20.0).result(30)
    plans.note_warmed("small", tokens=50, cached_tokens=48, usd=0.001).result(30)
    (row,) = plans.plans()
    assert (row.warmed, row.warmed_tokens, row.warmed_cached_tokens) == (2, 100, 48)
    assert row.warmed_usd == pytest.approx(0.002)
