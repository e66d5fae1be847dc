"""A replayer that was stopped beyond its lease writes nothing once it goes on: no step and no dollar counts twice."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from aiohttp import web

from learning.alone import alone
from learning.replay.run import LEASE
from store.jobs.leases import Leases
from tests.flow.line import Asked, completion, upstream
from tests.learning.replay.replaying import ASKS, lead, planned, runner
from tests.patience import until

ROOT = Path(__file__).parents[3]
STEPS = 12
IN_FLIGHT = 4


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_frozen_replayer_writes_nothing_afterwards_and_another_one_goes_on(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else ""
    db, jobs, run = planned(tmp_path, STEPS, url=url)
    asked: Counter[str] = Counter()
    held_back = asyncio.Event()

    async def script(request: web.Request, one: Asked) -> web.StreamResponse:
        asked[one.json["messages"][0]["content"]] += 1
        if sum(asked.values()) > 10:
            # It is stopped while some requests are under way: the answers come once it goes on.
            await held_back.wait()
        return web.json_response(completion("An answer."))

    async with upstream() as server:
        server.script = script
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.learning.replay.child_that_replays"),
            *(str(tmp_path), server.url, url, "1.0"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
        try:
            assert child.stdout is not None
            assert await child.stdout.readline() == b"begins\n"
            await until(lambda: sum(asked.values()) == 10 + IN_FLIGHT, "all its requests under way")
            # In the midst of a transaction it would hold up everybody until PostgreSQL ends that (10 s).
            await asyncio.sleep(0.1)
            child.send_signal(signal.SIGSTOP)
            leases = Leases(db)
            free = leases.lease(LEASE)
            await until(lambda: free.take(), "its lease is over")
            free.release()
            async with alone(leases, LEASE):
                assert await asyncio.wrap_future(jobs.interrupt_dead()) == [run]
                ended = await runner(jobs, lead()).run(run)
            assert ended.state == "done" and jobs.progress(run) == {"done": STEPS}
            before = dump(db)
            held_back.set()
            child.send_signal(signal.SIGCONT)
            _, errors = await asyncio.wait_for(child.communicate(), 120)
            assert child.returncode != 0 and b"LeaseOver" in errors
            assert dump(db) == before, "nothing was written once it went on"
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
    keys = Counter((key, step) for key, step, state in before if state == "paid")
    assert len(keys) == STEPS * ASKS and set(keys.values()) == {1}
    unknown = sum(state == "unknown" for *_, state in before)
    assert unknown == IN_FLIGHT, "what was under way may have been paid for, and counts as if"
    assert sum(asked.values()) == 10 + IN_FLIGHT, "and nothing more was asked once it went on"
    db.close()


def dump(db) -> list[tuple[str, int, str]]:  # type: ignore[no-untyped-def]
    rows = db.read().execute("SELECT key, step_id, state, id FROM replay_asks ORDER BY id").fetchall()
    runs = db.read().execute("SELECT state, id, note FROM replay_runs ORDER BY id").fetchall()
    steps = db.read().execute("SELECT state, id, result FROM replay_steps ORDER BY id").fetchall()
    return [(key, step, state) for key, step, state, _ in rows] + [tuple(row) for row in [*runs, *steps]]
