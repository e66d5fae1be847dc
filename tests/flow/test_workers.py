"""Several workers on one port share what is remembered, count as one, are replaced when they die, and stop together."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.flow.process import Gateway, ran, running
from tests.patience import PATIENCE_S

CONFIG = """
listen: {{port: 0, workers: 2, grace_s: 2}}
engines:
  sim: {{kind: simulated, role: lead, ttft_ms: 0, token_ms: 0, facts: 100}}
models: {{sim: {{engines: [sim]}}}}
memory: {{data_dir: {data}, examples: {{enabled: false}}}}
"""


ASKED = {"model": "sim", "messages": [{"role": "user", "content": "Q"}]}


def started(tmp_path: Path) -> AbstractContextManager[Gateway]:
    (tmp_path / "config.yaml").write_text(CONFIG.format(data=tmp_path / "data"))
    return running("--config", str(tmp_path / "config.yaml"), workers=2)


def ask(run: Gateway) -> str:
    """The Cache-Status of an answer."""
    _, headers = run.post(
        "/chat/completions", {"model": "sim", "messages": [{"role": "user", "content": "Q"}]}
    )
    return headers["Cache-Status"]


def post(
    run: Gateway, path: str, body: object, headers: Mapping[str, str] | None = None
) -> Mapping[str, str]:
    """A POST with a credential, over a connection of its own; gives the answer's headers."""
    sent = {"Content-Type": "application/json", "Authorization": "Bearer sk-ann", **(headers or {})}
    with urlopen(Request(run.url + path, json.dumps(body).encode(), sent), timeout=PATIENCE_S) as answer:
        found: Mapping[str, str] = answer.headers
    return found


def test_workers_share_memory_and_add_up_their_metrics(tmp_path: Path) -> None:
    with started(tmp_path) as run:
        ask(run)
        stored = 'understudy_remembered_total{kind="exact",result="stored"}'
        run.wait_for(lambda: run.figure(stored) == 1, "the answer is committed")
        assert all("hit" in ask(run) for _ in range(13)), "whichever worker is asked"
        assert run.figure(stored) == 1, "and no worker had to ask again"
        # What is counted is counted after the answer left; any worker answers for all.
        hits = 'understudy_request_seconds_count{outcome="hit"}'
        run.wait_for(lambda: run.figure(hits) >= 13, "all hits of both workers in one exposition")


@pytest.mark.slow
def test_an_answer_found_wrong_is_repeated_by_no_worker_from_the_feedback_on(tmp_path: Path) -> None:
    probing = {"Cache-Control": "no-store"}
    stored = 'understudy_remembered_total{kind="exact",result="stored"}'
    with started(tmp_path) as run:
        for times in range(1, 4):
            given = post(run, "/chat/completions", ASKED)
            run.wait_for(lambda times=times: run.figure(stored) == times, "the answer is committed")
            statuses = [post(run, "/chat/completions", ASKED, probing)["Cache-Status"] for _ in range(12)]
            assert all("hit" in status for status in statuses), "both workers have it in memory"
            said = {"decision_id": given["x-understudy-decision-id"], "thumb": "down"}
            post(run, "/feedback", said)
            statuses = [post(run, "/chat/completions", ASKED, probing)["Cache-Status"] for _ in range(12)]
            assert not any("hit" in status for status in statuses)


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    with started(tmp_path) as run:
        victim = run.events("listening")[0]["pid"]
        os.kill(victim, signal.SIGKILL)
        run.wait_for_event("listening", 3)
        assert run.events("worker_died")[0]["pid"] == victim
        assert ask(run)


def folders(temporary: Path) -> list[Path]:
    """Those of supervisors: where orders come in is this user's for all gateways."""
    return [path for path in temporary.iterdir() if not path.name.startswith("understudy-control-")]


@pytest.mark.slow
def test_what_a_killed_supervisor_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    options = ("--upstream", "http://127.0.0.1:9/v1", "--workers", "2", "--grace", "1")
    environment = {"TMPDIR": str(tmp_path)}
    with running(*options, workers=2, environment=environment) as killed:
        (left,) = folders(tmp_path)
        killed.process.kill()
        killed.wait_for(lambda: refused(killed.port), "its workers ended", alive=False)
    with running(*options, workers=2, environment=environment) as first:
        assert left.exists(), "it is too young to be told from one that is being made"
        used = {path for path in folders(tmp_path) if path != left}
        for folder in folders(tmp_path):
            os.utime(folder, (0, 0))
        with running(*options, workers=2, environment=environment):
            assert not left.exists() and all(path.exists() for path in used)
            assert first.figure("understudy_requests_total") >= 0


def refused(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.slow
def test_sigterm_ends_all_of_them_in_order(tmp_path: Path) -> None:
    with started(tmp_path) as run:
        assert run.stop() == 0
        assert len(run.events("stopped")) == 2


@pytest.mark.slow
def test_a_worker_that_cannot_start_ends_the_whole_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    (tmp_path / "config.yaml").write_text(CONFIG.format(data=tmp_path / "data"))
    status, _, said = ran("serve", "--admin", "off", "--config", str(tmp_path / "config.yaml"))
    assert status == 2 and "cannot start" in said and str(tmp_path / "data") in said
    assert "name a folder that this user may write to" in said


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_taken_port_is_named_and_exits_2(workers: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        status, _, said = ran(
            "serve", "--upstream", "http://127.0.0.1:1/v1", "--port", port, "--workers", workers
        )
    assert status == 2 and f"cannot listen on 127.0.0.1:{port}" in said
