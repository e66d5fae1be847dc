from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from learning.outcomes import target
from learning.outcomes.target import Targets
from store.decisions.choices import Choices
from store.decisions.requests import RequestLog
from store.errors import StoreBusy
from store.jobs.live_load import LoadReport, Standing, recorded_to_s
from store.sqlite.database import Database
from tests.store.rows import choice_record, request_record


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path / "understudy.db")
    yield database
    database.close()


async def test_an_answer_is_found_by_either_id_and_only_by_the_kind_that_was_named(db: Database) -> None:
    Choices(db).record(choice_record(1)).result(30)
    targets = Targets(Choices(db), RequestLog(db), settle_s=0.0)
    for id, completion in (("req-1", False), ("req-1", None), ("chatcmpl-1", True), ("chatcmpl-1", None)):
        found = await targets.wait_for("a1", id, completion=completion)
        assert found is not None and found.request_id == "req-1"
        assert (found.engine, found.example_ids, found.at_s) == ("small", (3, 1, 2), 1001.0)
    assert await targets.wait_for("a1", "req-1", completion=True) is None
    assert await targets.wait_for("a1", "chatcmpl-1", completion=False) is None
    for id in ("req-1", "chatcmpl-1"):
        assert await targets.wait_for("b2", id, completion=None) is None, "another tenant's does not exist"


async def test_an_answer_that_no_policy_weighed_is_found_in_the_log_of_requests(db: Database) -> None:
    log = RequestLog(db)
    for number, outcome in enumerate(("answered", "aborted", "hit", "failed", "upstream_error"), start=1):
        engine = "" if outcome == "hit" else "large"
        log.record(request_record(number, outcome=outcome, engine=engine)).result(30)
    targets = Targets(Choices(db), log, settle_s=0.0)
    found = [await targets.wait_for("a1", f"req-{n}", completion=False) for n in range(1, 6)]
    assert [t.engine if t else None for t in found] == ["large", "large", "", None, None]
    assert await targets.wait_for("b2", "req-1", completion=False) is None
    for number, outcome in enumerate(("answered", "hit", "failed"), start=6):
        log.record(request_record(number, outcome=outcome, completion_id="chatcmpl-9")).result(30)
    for completion in (True, None):
        by_own_id = await targets.wait_for("a1", "chatcmpl-9", completion=completion)
        assert by_own_id is not None and by_own_id.request_id == "req-6", "the answer, not its repeat"
    assert await targets.wait_for("a1", "chatcmpl-9", completion=False) is None
    assert await targets.wait_for("b2", "chatcmpl-9", completion=None) is None
    without_log = Targets(Choices(db), None, settle_s=0.0)
    assert await without_log.wait_for("a1", "req-1", completion=False) is None


async def test_feedback_that_is_faster_than_the_recorder_finds_its_answer_all_the_same(db: Database) -> None:
    targets = Targets(Choices(db), RequestLog(db), settle_s=30.0)
    waiting = asyncio.create_task(targets.wait_for("a1", "chatcmpl-1", completion=True))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    Choices(db).record(choice_record(1)).result(30)
    found = await waiting
    assert found is not None and found.request_id == "req-1"


async def test_nobody_says_that_there_is_no_such_answer_while_a_worker_is_behind(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead, behind = LoadReport(tmp_path), LoadReport(tmp_path)
    ahead.say(Standing(0, time.monotonic() + 3600))
    targets = Targets(
        Choices(db), RequestLog(db), settle_s=0.0, recorded_to_s=partial(recorded_to_s, tmp_path)
    )
    waiting = asyncio.create_task(targets.wait_for("a1", "chatcmpl-1", completion=True))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    Choices(db).record(choice_record(1)).result(30)
    assert await waiting is not None
    monkeypatch.setattr(target, "_AT_MOST_S", 0.1)
    with pytest.raises(StoreBusy):
        await targets.wait_for("a1", "req-9", completion=False)
    behind.say(Standing(0, time.monotonic() + 3600))
    assert await targets.wait_for("a1", "req-9", completion=False) is None, "now it is known"
    for report in (ahead, behind):
        report.close()
