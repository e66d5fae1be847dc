"""What operators spend on engines is added up since when it is asked for, and stays spent when the tenant is deleted."""

from __future__ import annotations

from store import Store
from store.jobs.operator_asks import OperatorAsk
from store.sums import DELETED


def test_what_was_spent_adds_up_and_stays_spent(store: Store) -> None:
    asks = store.jobs.operator_asks
    for at_s, tenant in ((10.0, "a1"), (20.0, "a1"), (30.0, "b2")):
        asks.note(OperatorAsk(at_s, "ann", tenant, "req-1", "large", True, 0.5, 10, 5, 1.25)).result(30)
    assert asks.spent_usd(0.0) == 1.5 and asks.spent_usd(15.0) == 1.0
    assert asks.forget_tenant("a1").result(30) == 2 and asks.spent_usd(0.0) == 1.5
    store.decisions.requests.forget_tenant("a1").result(30)
    spent = {tenant: asks.spent_usd(0.0, tenant) for tenant in (None, "a1", "b2", DELETED)}
    assert spent == {None: 1.5, "a1": 0.0, "b2": 0.5, DELETED: 1.0}
    assert store.decisions.trim_sums(500 * 86_400.0).result(30) == 1 and asks.spent_usd(0.0) == 0.5
