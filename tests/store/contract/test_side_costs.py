"""What is paid off-peak outside any run stands in the same report, by its purpose, whoever is deleted."""

from __future__ import annotations

import time

from store import Store
from store.jobs.replay_records import ReplayBudget


def test_what_was_paid_outside_runs_is_not_missing_from_the_report(store: Store) -> None:
    jobs = store.jobs.replay
    jobs.want("a1", ReplayBudget(), asked_by="command").result()
    jobs.side_costs.book("a1", "lead", "warm", 0.25, 40).result()
    jobs.side_costs.book("a1", "lead", "warm", 0.5, 60).result()
    jobs.side_costs.book("b2", "understudy", "warm", 0.125, 8).result()

    lines = {(line.engine, line.purpose): line for line in jobs.spend()}
    assert lines["lead", "warm"].asks == 2
    assert lines["lead", "warm"].spent.usd == 0.75
    assert lines["lead", "warm"].spent.tokens == 100
    assert lines["understudy", "warm"].spent.most_usd == 0.125
    assert [(line.engine, line.purpose) for line in jobs.spend(tenant="b2")] == [("understudy", "warm")]
    assert jobs.spend(since_s=time.time() + 61) == []


def test_costs_outlive_their_tenant_and_go_with_time(store: Store) -> None:
    jobs = store.jobs.replay
    for tenant in ("a1", "b2"):
        jobs.side_costs.book(tenant, "lead", "warm", 1.0).result()
    jobs.forget_tenant("a1").result()
    assert [(line.purpose, line.asks, line.spent.usd) for line in jobs.spend()] == [("warm", 2, 2.0)]
    store.decisions.trim_sums(time.time() + 399 * 86_400).result()
    assert jobs.spend() != [], "what was kept, of a deleted tenant, too"
    store.decisions.trim_sums(time.time() + 401 * 86_400).result()
    assert jobs.spend() == []
