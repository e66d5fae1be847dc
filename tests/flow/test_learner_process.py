"""The learner is a process of its own: killed, it comes back; whatever becomes of it, requests go on; all stop together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path

import pytest

from tests.flow.line import MODELS
from tests.flow.process import Gateway, running
from tests.patience import PATIENCE_S
from understudy.processes import supervisor

CONFIG = """
listen: {{port: 0, workers: {workers}, grace_s: 2}}
engines:
  small:
    {{kind: simulated, role: understudy, ttft_ms: 0, token_ms: 0, facts: 100,
    price: {{input_usd_per_mtok: 0, output_usd_per_mtok: 1}}}}
  sim:
    {{kind: simulated, role: lead, ttft_ms: 0, token_ms: 0, facts: 100,
    price: {{input_usd_per_mtok: 0, output_usd_per_mtok: 10}}}}
models: {{sim: {{engines: [small, sim], policy: in_context, advanced: {{outcomes_needed: 1}}}}}}
memory:
  data_dir: {data}
  advanced: {{embedding_cache_dir: {models}, embedding_deadline_ms: 10000, retrieve_deadline_ms: 10000}}
learning: {{enabled: {enabled}, advanced: {{every_s: 0.2, min_new_outcomes: 1}}}}
"""


def started(tmp_path: Path, *, workers: int = 1, enabled: bool = True) -> AbstractContextManager[Gateway]:
    config = CONFIG.format(
        data=tmp_path / "data", models=MODELS, workers=workers, enabled=str(enabled).lower()
    )
    (tmp_path / "config.yaml").write_text(config)
    return running("--config", str(tmp_path / "config.yaml"), workers=workers)


def chat(run: Gateway, question: str) -> str:
    """The decision behind an answer."""
    body = {"model": "sim", "messages": [{"role": "user", "content": question}]}
    return run.post("/chat/completions", body)[1]["x-understudy-decision-id"]


@pytest.mark.slow
def test_feedback_becomes_a_version_that_the_workers_use(tmp_path: Path) -> None:
    with started(tmp_path, workers=2) as run:
        run.wait_for_event("learning")
        for number in range(3):
            decision = chat(run, f"What is the population of place number {number}?")
            run.post("/feedback", {"decision_id": decision, "score": 1.0})
        run.wait_for_event("artifact_published")

        # Each worker, when it decides for this tenant: over a question that no other worker has answered before.
        places = count()
        run.wait_for(
            lambda: chat(run, f"Where is {next(places)}?") and len(run.events("artifact_in_use")) >= 2,
            "both using it",
        )


@pytest.mark.slow
def test_a_killed_learner_is_started_again_while_requests_go_on(tmp_path: Path) -> None:
    with started(tmp_path, workers=2) as run:
        run.wait_for_event("learning")
        victim = run.helper()
        os.kill(victim, signal.SIGKILL)
        run.wait_for_event("learner_died")
        assert run.events("learner_died")[0]["pid"] == victim
        for number in range(5):
            assert chat(run, f"Who wrote opera number {number}?")
        run.wait_for_event("learning", 2)
        assert not run.events("worker_died")
        assert run.stop() == 0
        assert len(run.events("stopped")) == 2


@pytest.mark.slow
def test_a_learner_that_cannot_start_stops_nobody(tmp_path: Path) -> None:
    with started(tmp_path) as run:
        run.wait_for_event("learning")
        os.kill(run.helper(), signal.SIGKILL)
        run.wait_for_event("learner_died")
        # What opens the store anew refuses it; what has it open goes on.
        (tmp_path / "data" / "secret").write_bytes(b"damaged")
        run.wait_for_event("learner_died", 2)
        assert chat(run, "Who wrote the opera about the barber?")
        assert run.stop() == 0


@pytest.mark.slow
def test_without_learning_there_is_no_learner(tmp_path: Path) -> None:
    with started(tmp_path, enabled=False) as run:
        assert chat(run, "Who wrote the opera about the barber?")
        assert not run.events("learning")


def test_a_learner_in_the_midst_of_training_is_not_waited_for(tmp_path: Path) -> None:
    script = f"""
import signal, sys, time
sys.path.insert(0, {str(Path(supervisor.__file__).parents[2])!r})
from understudy.processes.supervisor import Crew, Supervisor
def work(_, line):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    line.send(("ready",))
    time.sleep(600)
def learn():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("training", flush=True)
    time.sleep(600)
raise SystemExit(Supervisor(Crew(work, {{"learner": learn}}), 1, grace_s=300).run())
"""
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        assert run.stdout is not None and run.stdout.readline() == b"training\n"
        run.terminate()
        assert run.wait(PATIENCE_S) == 0, "an ordered stop: nothing is lost with what was being trained"
    finally:
        run.kill()
        run.communicate()


@pytest.mark.slow
def test_nobody_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    with started(tmp_path, workers=2) as run:
        run.wait_for_event("learning")
        children = [run.helper(), *(event["pid"] for event in run.events("listening"))]
        run.process.kill()
        run.wait_for(lambda: not any(_lives(pid) for pid in children), "all gone", alive=False)


def _lives(pid: int) -> bool:
    """Whether it still does anything: one that has ended may wait for somebody to ask how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
