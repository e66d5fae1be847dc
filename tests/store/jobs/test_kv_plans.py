"""A plan is taken whole in place of the last one, tells that it changed, and loses what is removed from the bank."""

from __future__ import annotations

import pytest

from store.database import Database
from store.jobs.kv_plans import KvPlans


def test_a_worker_hears_of_a_new_plan(either: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = KvPlans(either)
    monkeypatch.setattr(plans._generation, "_check_every_s", 0.0)
    before = plans.generation()
    KvPlans(either).put("small", [], {}, 10.0).result(30)
    after = plans.generation()
    assert after != before
    assert plans.generation() == after
