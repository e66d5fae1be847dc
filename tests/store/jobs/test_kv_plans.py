"""A plan is taken whole in place of the last one, tells that it changed, and loses what is removed from the bank."""

from __future__ import annotations

import pytest

from store.jobs.kv_plans import KvPlans
from store.sqlite.database import Database


def test_a_worker_hears_of_a_new_plan(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = KvPlans(db)
    monkeypatch.setattr(plans._generation, "_check_every_s", 0.0)
    before = plans.generation()
    KvPlans(db).put("small", [], {}, 10.0).result(30)
    after = plans.generation()
    assert after != before
    assert plans.generation() == after
