"""Deleting a tenant: its keys are refused, nothing is remembered of it, and no total of the past is another than before."""

from __future__ import annotations

import pytest

from admin.usage_report import usage_total
from store import Store
from store.held import Held
from store.jobs.operator_asks import OperatorAsk
from store.people.configured import ConfiguredKey, ConfiguredTenant
from store.people.keys import KeptInConfiguration
from store.people.limits import Limits, Terms
from store.sums import DELETED
from tests.store.rows import choice_record, new_example, outcome_record, request_record


def filled(store: Store, tenant: str) -> None:
    """A request, its decision, what judging it cost, an engine asked by hand, replay, an example and a version."""
    choice = choice_record(1, tenant=tenant, request_id=f"req-{tenant}", contributor="key_1/ann")
    store.decisions.choices.record(choice).result(30)
    record = request_record(1, id=f"req-{tenant}", tenant=tenant, reference_cost_usd=2.0)
    store.decisions.requests.record(record).result(30)
    store.outcomes.note(
        outcome_record(1, tenant=tenant, request_id=f"req-{tenant}", source="judge", cost_usd=0.25)
    ).result(30)
    store.jobs.operator_asks.note(
        OperatorAsk(1000.0, "ann", tenant, f"req-{tenant}", "large", True, 0.5, 10, 5, 1.0)
    ).result(30)
    store.jobs.replay.side_costs.book(tenant, "large", "warm", 0.125, 40).result(30)
    store.examples.add(new_example(1, tenant)).result(30)
    store.artifacts.publish("bandit", tenant, "gpt-4o", b"weights", metrics={})


def totals(store: Store) -> tuple[float, ...]:
    rollups = store.decisions.rollups(["gpt-4o"])
    while rollups.catch_up():
        pass
    sums = rollups.requests(86_400, 0.0, by_time=False)
    books = usage_total(store.decisions.usage.sums())
    return (
        sum(row.requests for row in sums),
        sum(row.cost_usd for row in sums),
        sum(row.reference_cost_usd for row in sums),
        store.outcomes.spent_usd(0.0),
        store.jobs.operator_asks.spent_usd(0.0),
        sum(line.spent.most_usd for line in store.jobs.replay.spend()),
        books["saved_usd"],
        books["overheads_usd"],
        books["cost_usd"],
    )


def test_no_total_changes_with_a_deletion(store: Store) -> None:
    for tenant in ("a1", "b2"):
        filled(store, tenant)
    before = totals(store)
    assert before[3:6] == (0.5, 1.0, 0.25)
    store.forget_contributors("a1", ["key_1/ann"])
    assert totals(store) == pytest.approx(before), "of one of its users"
    assert store.outcomes.spent_usd(0.0, "a1") == 0.25
    store.forget_tenant("a1")
    assert totals(store) == pytest.approx(before)
    assert store.outcomes.spent_usd(0.0, "a1") == 0.0 and store.outcomes.spent_usd(0.0, DELETED) == 0.25
    store.forget_tenant("a1")
    assert totals(store) == pytest.approx(before), "once more changes nothing"
    with pytest.raises(ValueError, match="sums of nobody"):
        store.forget_tenant(DELETED)


def test_what_would_go_is_counted_and_gone_afterwards(store: Store) -> None:
    filled(store, "a1")
    held = store.held_of("a1")
    assert held == Held(examples=1, requests=1, choices=1, outcomes=1, versions=1) and held.anything
    store.forget_tenant("a1")
    assert store.held_of("a1") == Held() and not store.held_of("a1").anything


def test_its_keys_are_refused_and_what_was_laid_down_is_gone(store: Store) -> None:
    terms = Terms(limits=Limits(concurrency=1))
    record = store.tenant_records.create("acme", terms)
    key, secret = store.keys.create("acme", "app")
    other, others_secret = store.keys.create("umbrella", "app")
    store.keys.revoke(store.keys.create("acme", "old")[0].id).result(30)
    assert [one.id for one in store.tenant_records.delete(key.tenant)] == [key.id]
    assert store.keys.lookup(secret) is None and store.keys.lookup(others_secret) == other
    assert store.keys.get(key.id).revoked_at_s is not None and store.keys.any_configured()
    assert store.tenant_records.list() == [] and store.tenant_records.get(record.id) is None
    ((id, name, at_s),) = store.tenant_records.deleted()
    assert (id, name) == (key.tenant, "acme") and at_s > 0
    store.keys.create("acme", "anew")
    assert store.tenant_records.deleted() == [], "a key of that name makes it a tenant again"
    store.tenant_records.delete(key.tenant)
    store.tenant_records.create("acme", terms)
    assert store.tenant_records.deleted() == []


def test_what_the_configuration_lists_is_deleted_there_first(store: Store) -> None:
    keys = [ConfiguredKey("web", "acme", "a-secret-of-sixteen")]
    tenants = [ConfiguredTenant("umbrella")]
    store.configured.reconcile([*keys], tenants)
    manual, secret = store.keys.create("acme", "by hand")
    for name, said in (("acme", r"keys\.web"), ("umbrella", r"tenants\.umbrella")):
        with pytest.raises(KeptInConfiguration, match=said):
            store.tenant_records.delete(store.keys.tenant_named(name))
    assert store.keys.lookup(secret) == manual, "nothing was done by halves"
    store.configured.reconcile([], [])
    assert [one.id for one in store.tenant_records.delete(manual.tenant)] == [manual.id]


def test_a_name_that_reads_as_an_id_is_refused(store: Store) -> None:
    name = "id:" + "0" * 32
    with pytest.raises(ValueError, match="begins with 'id:'"):
        store.keys.create(name, "app")
    with pytest.raises(ValueError, match="begins with 'id:'"):
        store.tenant_records.create(name)
    with pytest.raises(ValueError, match="begins with 'id:'"):
        store.configured.reconcile([ConfiguredKey("web", name, "a-secret-of-sixteen")], [])
    assert store.keys.list() == []
