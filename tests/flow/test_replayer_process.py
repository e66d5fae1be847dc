"""The replayer is a process of its own: traffic goes first, killed it comes back and goes on, and all stop together."""

from __future__ import annotations

import http.client
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from store.jobs.replay_jobs import ReplayJobs
from store.jobs.replay_records import ReplayBudget
from store.sqlite.database import Database
from tests.flow.line import MODELS
from tests.flow.process import Gateway, running

pytestmark = pytest.mark.slow

CONFIG = """
listen: {{port: 0, workers: {workers}, grace_s: 2}}
admin: {{enabled: false}}
learning: {{enabled: false}}
engines:
  small:
    {{kind: simulated, role: understudy, ttft_ms: 0, token_ms: 0, facts: 100,
    price: {{input_usd_per_mtok: 0, output_usd_per_mtok: 1}}}}
  sim:
    {{kind: simulated, role: lead, ttft_ms: 0, token_ms: 0, facts: 100,
    price: {{input_usd_per_mtok: 0, output_usd_per_mtok: 10}}}}
  slow: {{kind: simulated, role: lead, ttft_ms: 60000, facts: 100}}
  judge: {{kind: simulated, role: judge, ttft_ms: 0, token_ms: 0, facts: 100}}
models:
  sim: {{engines: [small, sim], policy: few_shot, proof: off}}
  slow: {{engines: [slow]}}
memory:
  data_dir: {data}
  advanced: {{embedding_cache_dir: {models}, embedding_deadline_ms: 10000, retrieve_deadline_ms: 10000}}
replay:
  enabled: true
  judge: judge
  cron: "{cron}"
  advanced: {{calm_s: 0.3}}
"""


@contextmanager
def started(tmp_path: Path, *, workers: int = 1, cron: str = "0 0 29 2 *") -> Iterator[Gateway]:
    config = CONFIG.format(data=tmp_path / "data", models=MODELS, workers=workers, cron=cron)
    (tmp_path / "config.yaml").write_text(config)
    with running("--config", str(tmp_path / "config.yaml"), workers=workers) as run:
        run.wait_for_event("replaying")
        yield run


@contextmanager
def jobs(tmp_path: Path) -> Iterator[ReplayJobs]:
    db = Database.open(tmp_path / "data" / "understudy.db")
    yield ReplayJobs(db)
    db.close()


def ask(run: Gateway, question: str) -> bytes:
    body = {"model": "sim", "messages": [{"role": "user", "content": question}]}
    return run.post("/chat/completions", body)[0]


def asking_in_vain(run: Gateway) -> http.client.HTTPConnection:
    """A client whose answer takes a minute; it may leave at any time."""
    connection = http.client.HTTPConnection("127.0.0.1", run.port)
    body = json.dumps({"model": "slow", "messages": [{"role": "user", "content": "Anybody?"}]})
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    return connection


def state_of(found: ReplayJobs, run_id: int) -> str:
    run: Any = found.run(run_id)
    return str(run.state)


@pytest.mark.slow
def test_traffic_goes_first_and_what_was_asked_for_is_done_once_it_has_gone(tmp_path: Path) -> None:
    with started(tmp_path, workers=2) as run, jobs(tmp_path) as found:
        for number in range(4):
            ask(run, f"What is the population of place number {number}?")

        waiting = [asking_in_vain(run) for _ in range(3)]
        run.wait_for_event("off_peak_over")
        wanted = found.want("", ReplayBudget(), asked_by="admin").result(30)
        time.sleep(1.5)
        assert state_of(found, wanted) == "wanted"
        for client in waiting:
            client.close()
        run.wait_for(lambda: state_of(found, wanted) == "done", "the run done")
        # What the replayer counts, any worker tells.
        spent = found.asks.spent(wanted).usd
        run.wait_for(
            lambda: abs(run.figure("understudy_replay_cost_usd_total") - spent) < 1e-12,
            "its cost in the metrics",
        )


@pytest.mark.slow
def test_a_killed_replayer_comes_back_and_begins_the_nights_run_by_itself(tmp_path: Path) -> None:
    with started(tmp_path, cron="* * * * *") as run, jobs(tmp_path) as found:
        os.kill(run.helper(), signal.SIGKILL)
        run.wait_for_event("replayer_died")
        assert ask(run, "Who wrote the opera about the barber?")
        run.wait_for_event("replaying", 2)
        # It may have died in the minute that its second start is in: the next one is due then.
        run.wait_for(lambda: found.runs(states=("done",)), "a run of the schedule", 180)
        assert {each.asked_by for each in found.runs()} == {"schedule"}
        assert run.events("usual_week")
        assert not run.events("worker_died")
        assert run.stop() == 0
