"""How long rows about requests are kept, whatever the clock said when they were written."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from store.answers.responses import KeptResponse
from store.people.owned import Owned
from store.workflows.records import NewRun, NewStep, NewVariable, RunChange, RunEnd, VariableEnd
from tests.admin.runs_kept import CLAIM
from tests.flow.line import line, upstream
from understudy.memory import Memory, _chores
from understudy.settings.config import Config

_DAY_S = 86_400.0


def chores(memory: Memory, config: Config, monkeypatch: pytest.MonkeyPatch, *, days: float) -> None:
    """Do all of them once, so many days from now."""
    now_s = time.time()
    with monkeypatch.context() as later:
        later.setattr(time, "time", lambda: now_s + days * _DAY_S)
        for chore in _chores(memory.store, config.memory, config.retention):
            chore.run()
    assert memory.store.drain(30)


async def test_requests_that_a_clock_stamped_ahead_are_not_kept_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead_s = time.time() + 3650 * _DAY_S
    async with upstream() as behind:
        memory = {
            "data_dir": str(tmp_path),
            "examples": {"enabled": False},
            "request_texts": {"enabled": True},
        }
        async with line(
            {"upstream": {"base_url": behind.url}, "memory": memory, "retention": {"rows_days": 30}}
        ) as gate:
            with monkeypatch.context() as wrong:
                wrong.setattr(time, "time", lambda: ahead_s)
                await gate.chat("Q")
            opened, config = gate.gateway.memory, gate.gateway.config
            assert opened is not None and opened.requests is not None
            assert len(opened.requests.recent()) == 1
            chores(opened, config, monkeypatch, days=0)
            assert len(opened.requests.recent()) == 1, "it is as old as anything written now"
            chores(opened, config, monkeypatch, days=29)
            assert len(opened.requests.recent()) == 1
            chores(opened, config, monkeypatch, days=31)
            assert opened.requests.recent() == []
            assert opened.store.decisions.texts.total_bytes() == 0


async def test_owners_of_ids_and_kept_responses_go_as_retention_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {
        "memory": {"data_dir": str(tmp_path), "examples": {"enabled": False}},
        "retention": {"rows_days": 30, "texts_days": 7},
        "tenants": {"short": {"retention": {"rows_days": 2, "texts_days": 1}}},
    }
    async with upstream() as behind, line({"upstream": {"base_url": behind.url}, **config}) as gate:
        opened, made = gate.gateway.memory, gate.gateway.config
        assert opened is not None
        owned, kept = opened.store.owned, opened.store.answers.responses
        short = next(one.id for one in opened.store.tenant_records.list() if one.name == "short")
        for tenant in ("a1", short):
            owned.note("resp_1", Owned("response", tenant, "", "", "")).result(30)
            kept.put("resp_1", tenant, KeptResponse(b"{}", b"[]")).result(30)

        def there() -> list[bool]:
            of = ("a1", short)
            ids = [owned.find("resp_1", tenant) is not None for tenant in of]
            return ids + [kept.get("resp_1", tenant) is not None for tenant in of]

        for days, left in (
            (0.9, [True, True, True, True]),
            (1.1, [True, True, True, False]),
            (2.1, [True, False, True, False]),
            (7.1, [True, False, False, False]),
            (30.1, [False, False, False, False]),
        ):
            chores(opened, made, monkeypatch, days=days)
            assert there() == left, days


async def test_values_go_after_their_time_and_runs_with_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with upstream() as behind:
        memory = {"data_dir": str(tmp_path), "examples": {"enabled": False}}
        async with line(
            {"upstream": {"base_url": behind.url}, "memory": memory, "retention": {"rows_days": 30}}
        ) as gate:
            opened, config = gate.gateway.memory, gate.gateway.config
            assert opened is not None
            runs, now_s = opened.store.runs, time.time()
            # Kept for an hour; one that a clock stamped ahead.
            for id, at_s in (("run_1", now_s), ("run_2", now_s + 3650 * _DAY_S)):
                run = NewRun(id, "a1", at_s)
                runs.begin(CLAIM, run, [NewStep("s", body=b"asked")], [NewVariable(f"var_{id}", step="s")])
                ended = [VariableEnd(f"var_{id}", "ready", "said")]
                runs.save(CLAIM, [RunChange(id, at_s, variables=ended, end=RunEnd("done", at_s))]).result(30)
            runs.begin(CLAIM, NewRun("run_3", "a1", now_s), [], []).result(30)
            chores(opened, config, monkeypatch, days=0)
            assert runs.variable("a1", "var_run_1", now_s=now_s) is not None
            chores(opened, config, monkeypatch, days=0.05)
            assert runs.variable("a1", "var_run_1", now_s=now_s) is None
            assert {each.run.id for each in runs.runs()} == {"run_1", "run_2", "run_3"}
            chores(opened, config, monkeypatch, days=31)
            assert {each.run.id for each in runs.runs()} == {"run_3"}, "what goes on stays"
