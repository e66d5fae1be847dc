"""The learner is a process of its own: killed, it comes back; whatever becomes of it, requests go on; all stop together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gateway import supervisor
from tests.flow.line import MODELS
from tests.flow.test_workers import Run, wait_for

CONFIG = """
listen: {{port: 0, workers: {workers}, grace_s: 2}}
engines:
  small: {{kind: simulated, role: understudy, ttft_ms: 0, token_ms: 0, facts: 100, price: {{output_usd_per_mtok: 1}}}}
  sim: {{kind: simulated, role: lead, ttft_ms: 0, token_ms: 0, facts: 100, price: {{output_usd_per_mtok: 10}}}}
models: {{sim: {{engines: [small, sim], policy: in_context, in_context: {{outcomes_needed: 1}}}}}}
memory:
  data_dir: {data}
  examples: {{embedding: {{cache_dir: {models}, deadline_ms: 10000}}, retrieve_deadline_ms: 10000}}
learning: {{every_s: 0.2, min_new_outcomes: 1, train_scorer: false, enabled: {enabled}}}
"""


@contextmanager
def started(tmp_path: Path, *, workers: int = 1, enabled: bool = True) -> Iterator[Run]:
    config = CONFIG.format(
        data=tmp_path / "data", models=MODELS, workers=workers, enabled=str(enabled).lower()
    )
    (tmp_path / "config.yaml").write_text(config)
    run = Run(tmp_path / "config.yaml", tmp_path / "log")
    try:
        wait_for(lambda: len(run.events("listening")) == workers, "all workers listening", 60)
        yield run
    finally:
        run.process.terminate()
        try:
            run.process.wait(30)
        finally:
            run.process.kill()


def learner_of(run: Run) -> int:
    """Its process id: the child of the supervisor that never said it listens."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(run.process.pid)], capture_output=True, text=True, check=True
    )
    workers = {event["pid"] for event in run.events("listening")}
    (found,) = {int(pid) for pid in listed.stdout.split()} - workers
    return found


def chat(run: Run, question: str) -> str:
    """The decision behind an answer."""
    body = {"model": "sim", "messages": [{"role": "user", "content": question}]}
    with post(run, "/v1/chat/completions", body) as answer:
        answer.read()
        return str(answer.headers["x-understudy-decision-id"])


def post(run: Run, path: str, body: object) -> Any:
    data = json.dumps(body).encode()
    request = urllib.request.Request(run.url + path, data, {"Content-Type": "application/json"})
    return urllib.request.urlopen(request, timeout=20)


def test_feedback_becomes_a_version_that_the_workers_use(tmp_path: Path) -> None:
    with started(tmp_path, workers=2) as run:
        wait_for(lambda: run.events("learning"), "the learner learning", 60)
        for number in range(3):
            decision = chat(run, f"What is the population of place number {number}?")
            with post(run, "/v1/feedback", {"decision_id": decision, "score": 1.0}) as told:
                assert told.status in (200, 201)
        wait_for(lambda: run.events("artifact_published"), "a version")

        # Each worker, when it is asked for this tenant.
        wait_for(
            lambda: chat(run, "Where is it?") and len(run.events("artifact_in_use")) >= 2, "both using it"
        )


def test_a_killed_learner_is_started_again_while_requests_go_on(tmp_path: Path) -> None:
    with started(tmp_path, workers=2) as run:
        wait_for(lambda: run.events("learning"), "the learner learning", 60)
        victim = learner_of(run)
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: run.events("learner_died"), "its death noticed")
        assert run.events("learner_died")[0]["pid"] == victim
        for number in range(5):
            assert chat(run, f"Who wrote opera number {number}?")
        wait_for(lambda: len(run.events("learning")) == 2, "a second start", 60)
        assert not run.events("worker_died")
        run.process.terminate()
        assert run.process.wait(30) == 0
        assert len(run.events("stopped")) == 2


def test_a_learner_that_cannot_start_stops_nobody(tmp_path: Path) -> None:
    with started(tmp_path) as run:
        wait_for(lambda: run.events("learning"), "the learner learning", 60)
        os.kill(learner_of(run), signal.SIGKILL)
        wait_for(lambda: run.events("learner_died"), "its death noticed")
        # What opens the store anew refuses it; what has it open goes on.
        (tmp_path / "data" / "secret").write_bytes(b"damaged")
        wait_for(lambda: len(run.events("learner_died")) == 2, "it died again", 60)
        assert chat(run, "Who wrote the opera about the barber?")
        run.process.terminate()
        assert run.process.wait(30) == 0


def test_without_learning_there_is_no_learner(tmp_path: Path) -> None:
    with started(tmp_path, enabled=False) as run:
        assert chat(run, "Who wrote the opera about the barber?")
        assert not run.events("learning")


def test_a_learner_in_the_midst_of_training_is_not_waited_for(tmp_path: Path) -> None:
    script = f"""
import signal, sys, time
sys.path.insert(0, {str(Path(supervisor.__file__).parent.parent)!r})
from gateway.supervisor import Supervisor
def work():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    time.sleep(600)
def learn():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("training", flush=True)
    time.sleep(600)
raise SystemExit(Supervisor(work, 1, grace_s=300, helpers={{"learner": learn}}).run())
"""
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        assert run.stdout is not None and run.stdout.readline() == b"training\n"
        run.terminate()
        assert run.wait(60) == 0, "an ordered stop: nothing is lost with what was being trained"
    finally:
        run.kill()
        run.communicate()


def test_nobody_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    with started(tmp_path, workers=2) as run:
        wait_for(lambda: run.events("learning"), "the learner learning", 60)
        children = [learner_of(run), *(event["pid"] for event in run.events("listening"))]
        run.process.kill()
        wait_for(lambda: not any(_lives(pid) for pid in children), "all gone", 60)


def _lives(pid: int) -> bool:
    """Whether it still does anything: one that has ended may wait for somebody to ask how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
