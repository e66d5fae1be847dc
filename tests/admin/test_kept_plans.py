"""A plan that was shown is run once, as it was shown."""

from __future__ import annotations

from admin.kept_plans import KeptPlan, KeptPlans
from store.jobs.replay_records import ReplayBudget


def test_a_plan_is_taken_once() -> None:
    plans = KeptPlans()
    plan = KeptPlan("t1", ReplayBudget(usd=1.0), ())
    id = plans.put(plan)
    assert plans.take("another") is None
    assert plans.take(id) is plan and plans.take(id) is None
    plans.close()
