from __future__ import annotations

import pytest

from store.answers import wrong_answers
from store.sqlite.database import Database


@pytest.mark.sqlite
@pytest.mark.parametrize(
    "statement", [wrong_answers._EXACT, wrong_answers._SEMANTIC], ids=["exact", "semantic"]
)
def test_what_is_dropped_is_found_by_indices_however_much_a_tenant_has(db: Database, statement: str) -> None:
    named = {"tenant": "a1", "requests": "[]", "examples": "[]"}
    plan = [row[3] for row in db.read().execute(f"EXPLAIN QUERY PLAN {statement}", named).fetchall()]
    walked = {step.split()[1] for step in plan if step.startswith("SCAN")}
    assert walked <= {"json_each", "j", "named", "standing", "concerned"}
    searched = [step for step in plan if step.startswith("SEARCH")]
    assert searched and not any(step.endswith("(tenant=?)") for step in searched)
