"""Run by tests that kill or stop it: goes on with a run until its plan is done, asking a real server."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from engines.engine import EngineInfo, Price
from engines.openai_http import OpenAIHTTP
from learning.alone import alone
from learning.replay.run import LEASE
from store.jobs.leases import LEASE_S, Leases
from store.jobs.replay_jobs import ReplayJobs
from tests.knobs import timeouts
from tests.learning.replay.replaying import database, runner


async def main(folder: Path, url: str, database_url: str = "", for_s: float = LEASE_S) -> None:
    db = database(folder, database_url)
    async with alone(Leases(db), LEASE, for_s):
        jobs = ReplayJobs(db)
        jobs.interrupt_dead().result()
        (run,) = jobs.runs()
        engine = OpenAIHTTP(EngineInfo("lead", "lead", Price(2.5, 10.0)), url, timeouts=timeouts())
        print("begins", flush=True)
        work = runner(jobs, engine, told=lambda line: print(line, flush=True))
        ended = await work.run(run.id)
        await engine.aclose()
        print(ended.state, flush=True)
    db.close()


asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:4], *map(float, sys.argv[4:])))
