"""The replayer is a process of its own: traffic goes first, killed it comes back and goes on, and all stop together."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from store.database import Database
from store.replay_jobs import ReplayJobs
from store.replay_records import ReplayBudget
from tests.flow.line import MODELS
from tests.flow.test_workers import Run, wait_for

CONFIG = """
listen: {{port: 0, workers: {workers}, grace_s: 2}}
admin: {{enabled: false}}
engines:
  small: {{kind: simulated, role: understudy, ttft_ms: 0, token_ms: 0, facts: 100, price: {{output_usd_per_mtok: 1}}}}
  sim: {{kind: simulated, role: lead, ttft_ms: 0, token_ms: 0, facts: 100, price: {{output_usd_per_mtok: 10}}}}
  slow: {{kind: simulated, role: lead, ttft_ms: 60000, facts: 100}}
  judge: {{kind: simulated, role: judge, ttft_ms: 0, token_ms: 0, facts: 100}}
models:
  sim: {{engines: [small, sim], policy: few_shot}}
  slow: {{engines: [slow]}}
memory:
  data_dir: {data}
  examples: {{embedding: {{cache_dir: {models}, deadline_ms: 10000}}, retrieve_deadline_ms: 10000}}
replay:
  enabled: true
  judge: judge
  cron: "{cron}"
  in_flight: 1
  off_peak: {{min_in_flight: 1, calm_s: 0.3}}
"""


@contextmanager
def started(tmp_path: Path, *, workers: int = 1, cron: str = "0 0 29 2 *") -> Iterator[Run]:
    config = CONFIG.format(data=tmp_path / "data", models=MODELS, workers=workers, cron=cron)
    (tmp_path / "config.yaml").write_text(config)
    run = Run(tmp_path / "config.yaml", tmp_path / "log")
    try:
        wait_for(lambda: len(run.events("listening")) == workers, "all workers listening", 60)
        wait_for(lambda: run.events("replaying"), "the replayer at work", 60)
        yield run
    finally:
        run.process.terminate()
        try:
            run.process.wait(30)
        finally:
            run.process.kill()


@contextmanager
def jobs(tmp_path: Path) -> Iterator[ReplayJobs]:
    db = Database.open(tmp_path / "data" / "understudy.db")
    yield ReplayJobs(db)
    db.close()


def replayer_of(run: Run) -> int:
    """Its process id: the child of the supervisor that never said it listens."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(run.process.pid)], capture_output=True, text=True, check=True
    )
    workers = {event["pid"] for event in run.events("listening")}
    (found,) = {int(pid) for pid in listed.stdout.split()} - workers
    return found


def ask(run: Run, question: str) -> bytes:
    body = json.dumps({"model": "sim", "messages": [{"role": "user", "content": question}]}).encode()
    request = urllib.request.Request(
        f"{run.url}/v1/chat/completions", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        read: bytes = answer.read()
        return read


def asking_in_vain(run: Run) -> http.client.HTTPConnection:
    """A client whose answer takes a minute; it may leave at any time."""
    connection = http.client.HTTPConnection(run.url.removeprefix("http://"))
    body = json.dumps({"model": "slow", "messages": [{"role": "user", "content": "Anybody?"}]})
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    return connection


def figure(run: Run, name: str) -> float:
    with urllib.request.urlopen(f"{run.url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def state_of(found: ReplayJobs, run_id: int) -> str:
    run: Any = found.run(run_id)
    return str(run.state)


def test_traffic_goes_first_and_what_was_asked_for_is_done_once_it_has_gone(tmp_path: Path) -> None:
    with started(tmp_path, workers=2) as run, jobs(tmp_path) as found:
        for number in range(4):
            ask(run, f"What is the population of place number {number}?")

        waiting = [asking_in_vain(run) for _ in range(3)]
        wait_for(lambda: run.events("off_peak_over"), "the gate closing")
        wanted = found.want("", ReplayBudget(), asked_by="admin").result(10)
        time.sleep(1.5)
        assert state_of(found, wanted) == "wanted"
        for client in waiting:
            client.close()
        wait_for(lambda: state_of(found, wanted) == "done", "the run done", 60)
        # What the replayer counts, any worker tells.
        spent = found.asks.spent(wanted).usd
        wait_for(
            lambda: abs(figure(run, "understudy_replay_cost_usd_total") - spent) < 1e-12,
            "its cost in the metrics",
        )


def test_a_killed_replayer_comes_back_and_begins_the_nights_run_by_itself(tmp_path: Path) -> None:
    with started(tmp_path, cron="* * * * *") as run, jobs(tmp_path) as found:
        os.kill(replayer_of(run), signal.SIGKILL)
        wait_for(lambda: run.events("replayer_died"), "its death noticed")
        assert ask(run, "Who wrote the opera about the barber?")
        wait_for(lambda: len(run.events("replaying")) == 2, "a second start", 60)
        wait_for(lambda: found.runs(states=("done",)), "a run of the schedule", 90)
        assert {each.asked_by for each in found.runs()} == {"schedule"}
        assert run.events("usual_week")
        assert not run.events("worker_died")
        run.process.terminate()
        assert run.process.wait(30) == 0
