"""What an operator drains is left alone by every worker within a second, and nothing of it fails a request."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from engines.errors import Kind
from store import Store
from store.jobs.engine_states import EngineStates
from store.sqlite.database import Database
from tests.engines.asking import closed_port
from tests.flow.line import Line, line, upstream
from tests.patience import until as holds


def config(url: str, folder: Path) -> dict[str, object]:
    engine = {"base_url": url, "advanced": {"attempts": 1}}
    return {
        "engines": {"small": {**engine, "model": "s"}, "large": {**engine, "model": "l"}},
        "models": {"gpt-4o": {"engines": ["small", "large"]}},
        "memory": {"data_dir": str(folder), "exact": {"enabled": False}, "examples": {"enabled": False}},
    }


async def until(made: Line, states: EngineStates, drained: bool) -> None:
    async with asyncio.timeout(60):
        while [row.drained for row in states.now(time.time()) if row.engine == "large"] != [drained]:
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_a_drained_engine_is_asked_by_nobody_until_it_is_restored(tmp_path: Path) -> None:
    async with upstream() as behind, line(config(behind.url, tmp_path)) as made:
        db = Database.open(tmp_path / "understudy.db")
        states = EngineStates(db)
        await until(made, states, False)
        assert (await made.chat("Q1")).headers["x-understudy-engine"] == "large"
        states.drain("large", "ann", "").result(30)
        await until(made, states, True)
        got = await made.chat("Q2")
        assert got.status == 200 and got.headers["x-understudy-engine"] == "small", "the stand-in answers"
        forced = await made.chat("Q3", {"x-understudy-engine": "large"})
        assert forced.status == 503 and "drained" in forced.json["error"]["message"]
        assert [asked.json["model"] for asked in behind.asked] == ["l", "s"]
        states.restore("large").result(30)
        await until(made, states, False)
        assert (await made.chat("Q4")).headers["x-understudy-engine"] == "large"
        db.close()


async def test_a_drained_engine_is_still_drained_after_a_restart(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.jobs.engine_states.drain("large", "ann", "").result(30)
    async with upstream() as behind, line(config(behind.url, tmp_path)) as made:
        assert (await made.chat("Q")).headers["x-understudy-engine"] == "small", "from the first request on"
    assert store.jobs.engine_states.now(time.time()) == [], "a worker that stops takes its word back"
    store.close()


async def test_a_stand_in_that_the_configuration_has_no_more_is_asked_by_nobody(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.jobs.engine_states.drain("large", "ann", "", stand_in="gone").result(30)
    async with upstream() as behind, line(config(behind.url, tmp_path)) as made:
        assert (await made.chat("Q")).headers["x-understudy-engine"] == "small"
        store.jobs.engine_states.drain("small", "ann", "", stand_in="gone").result(30)
        async with asyncio.timeout(60):
            while (got := await made.chat("Q2")).status == 200:
                await asyncio.sleep(0.02)
        assert got.status == 503 and "drained" in got.json["error"]["message"]
    store.close()


async def test_tries_and_failures_are_told(tmp_path: Path) -> None:
    async with upstream() as behind, line(config(behind.url, tmp_path)) as made:
        db = Database.open(tmp_path / "understudy.db")
        for question in ("Q1", "Q2", "Q3"):
            await made.chat(question)
        async with asyncio.timeout(60):
            while [r.asked for r in EngineStates(db).now(time.time()) if r.engine == "large"] != [3]:
                await asyncio.sleep(0.02)
        (row,) = [r for r in EngineStates(db).now(time.time()) if r.engine == "large"]
        assert (row.failed, row.breaker, row.drained) == (0, "closed", False) and row.answer_s is not None
        db.close()


async def test_what_an_engine_said_of_a_key_is_told_without_it(tmp_path: Path) -> None:
    made = config("http://127.0.0.1:1/v1", tmp_path)
    engine = {"base_url": f"http://127.0.0.1:{closed_port()}/v1", "api_key": "our-own-house-key"}
    async with line(made | {"engines": {"small": engine, "large": engine}}) as gate:
        servers = gate.gateway.built.engines.servers
        said = "Key our-own-house-key and key sk-proj-Zx81mPqL0a7TnKw2Vb9c4D are wrong. " + "x" * 400
        servers[0].count(Kind.REFUSED, 401, said)
        db = Database.open(tmp_path / "understudy.db")
        states = EngineStates(db)
        await holds(lambda: any(row.error for row in states.now(time.time())), "the error told")
        (row,) = [row for row in states.now(time.time()) if row.error]
        assert (
            row.error.startswith("refused 401: Key [key] and key [key] are wrong. xxx")
            and len(row.error) == 300
        )
        db.close()


async def test_errors_are_counted_once_and_outlive_their_worker(tmp_path: Path) -> None:
    made = config("http://127.0.0.1:1/v1", tmp_path)
    store = Store.open(tmp_path)
    states = store.jobs.engine_states
    async with line(made) as gate:
        small, large = gate.gateway.built.engines.servers
        large.count(Kind.REFUSED, 401, "no")
        await holds(lambda: states.errors(0.0) == {"large": {"refused": 1}}, "the error counted")
        large.count(Kind.REFUSED, 401, "no")
        small.count(Kind.CONNECT)
        # No step may be in time for these: the worker ends.
    assert states.now(time.time()) == []
    assert states.errors(0.0) == {"large": {"refused": 2}, "small": {"connect": 1}}
    store.close()
