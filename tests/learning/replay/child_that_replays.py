"""Run by test_replay_run.py, which kills it: goes on with a run until its plan is done, asking a real server."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from engines.engine import EngineInfo, Price
from engines.openai_http import OpenAIHTTP
from store.jobs.exclusive import alone
from store.jobs.replay_jobs import ReplayJobs
from store.sqlite.database import Database
from tests.knobs import timeouts
from tests.learning.replay.replaying import runner


async def main(folder: Path, url: str) -> None:
    with alone(folder / "replay.lock"):
        db = Database.open(folder / "understudy.db")
        jobs = ReplayJobs(db)
        jobs.interrupt_dead().result()
        (run,) = jobs.runs()
        engine = OpenAIHTTP(EngineInfo("lead", "lead", Price(2.5, 10.0)), url, timeouts=timeouts())
        print("begins", flush=True)
        ended = await runner(jobs, engine, told=lambda line: print(line, flush=True)).run(run.id)
        await engine.aclose()
        print(ended.state, flush=True)
        db.close()


asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
