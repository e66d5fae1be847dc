"""The command shows what is planned and what it cost, and no text."""

from __future__ import annotations

import json
import time
from pathlib import Path

from click.testing import CliRunner

from store import Store
from store.jobs.kv_plans import KvPlanExample
from tests.store.rows import new_example
from understudy.commands.kv_plan import kv_plan


def told(folder: Path, *more: str) -> str:
    found = CliRunner().invoke(kv_plan, ["--data", str(folder), *more])
    assert found.exit_code == 0, found.output
    return found.output


def test_a_plan_is_shown_in_words_and_for_machines(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    id = store.examples.add(new_example(1)).result(30).id
    store.close()
    assert "no plan was made yet" in told(tmp_path)
    store = Store.open(tmp_path)
    plans = store.jobs.kv_plans
    plans.put("small", [KvPlanExample(id, "a1", 40, 2.0)], {"of": 4}, time.time()).result(30)
    plans.note_warmed("small", tokens=50, cached_tokens=32, usd=0.25).result(30)
    store.close()
    words = told(tmp_path)
    assert words.splitlines()[1].split()[:6] == ["small", "1", "4", "40", "2", "2"]
    assert words.splitlines()[1].split()[-4:] == ["1", "50", "32", "$0.250000"]
    (row,) = json.loads(told(tmp_path, "--json"))
    assert (row["engine"], [e["example_id"] for e in row["examples"]]) == ("small", [id])
    assert "question" not in words + told(tmp_path, "--json")
