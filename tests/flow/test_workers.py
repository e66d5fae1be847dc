"""Several workers on one port share what is remembered, count as one, are replaced when they die, and stop together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CONFIG = """
listen: {{port: 0, workers: 2, grace_s: 2}}
engines:
  sim: {{kind: simulated, role: lead, ttft_ms: 0, token_ms: 0, facts: 100}}
models: {{sim: {{engines: [sim]}}}}
memory: {{data_dir: {data}, examples: {{enabled: false}}}}
"""


class Run:
    def __init__(self, config: Path, log: Path) -> None:
        with log.open("wb") as sink:
            command = [sys.executable, "-m", "gateway", "serve", "--admin", "off", "--config", str(config)]
            self.process = subprocess.Popen(command, stderr=sink, stdout=subprocess.DEVNULL)
        self.log = log

    def events(self, name: str) -> list[dict[str, object]]:
        found = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [event for event in found if event["event"] == name]

    @property
    def url(self) -> str:
        return str(self.events("listening")[0]["url"])

    def ask(self, question: str) -> str:
        """The Cache-Status of an answer over a connection of its own, so that any worker may take it."""
        body = json.dumps({"model": "sim", "messages": [{"role": "user", "content": question}]}).encode()
        request = urllib.request.Request(
            f"{self.url}/v1/chat/completions", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            answer.read()
            return str(answer.headers["Cache-Status"])


def wait_for(condition: Callable[[], object], what: str, timeout_s: float = 20) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


@contextmanager
def started(tmp_path: Path) -> Iterator[Run]:
    (tmp_path / "config.yaml").write_text(CONFIG.format(data=tmp_path / "data"))
    run = Run(tmp_path / "config.yaml", tmp_path / "log")
    try:
        wait_for(lambda: len(run.events("listening")) == 2, "two workers listening")
        yield run
    finally:
        run.process.terminate()
        try:
            run.process.wait(20)
        finally:
            run.process.kill()


def test_workers_share_memory_and_add_up_their_metrics(tmp_path: Path) -> None:
    with started(tmp_path) as run:
        run.ask("Q")
        wait_for(lambda: "hit" in run.ask("Q"), "the answer is remembered")
        assert all("hit" in run.ask("Q") for _ in range(12)), "whichever worker is asked"
        # What is counted is counted after the answer left; any worker answers for all.
        wait_for(lambda: hits(run) >= 13, "all hits of both workers in one exposition")


def hits(run: Run) -> float:
    with urllib.request.urlopen(f"{run.url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    counted = (
        line for line in lines if line.startswith("understudy_requests_total") and 'outcome="hit"' in line
    )
    return sum(float(line.rpartition(" ")[2]) for line in counted)


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    with started(tmp_path) as run:
        victim = run.events("listening")[0]["pid"]
        assert isinstance(victim, int)
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: len(run.events("listening")) == 3, "a third start")
        assert run.events("worker_died")[0]["pid"] == victim
        assert run.ask("Q")


def test_sigterm_ends_all_of_them_in_order(tmp_path: Path) -> None:
    with started(tmp_path) as run:
        run.process.terminate()
        assert run.process.wait(20) == 0
        assert len(run.events("stopped")) == 2


def test_a_worker_that_cannot_start_ends_the_whole_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    (tmp_path / "config.yaml").write_text(CONFIG.format(data=tmp_path / "data"))
    run = Run(tmp_path / "config.yaml", tmp_path / "log")
    try:
        assert run.process.wait(30) == 2
    finally:
        run.process.kill()
    assert "cannot start" in run.log.read_text() and str(tmp_path / "data") in run.log.read_text()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_taken_port_is_named_and_exits_2(tmp_path: Path, workers: str) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [
            sys.executable,
            "-m",
            "gateway",
            "serve",
            "--upstream",
            "http://127.0.0.1:1/v1",
            "--port",
            port,
        ]
        ended = subprocess.run([*command, "--workers", workers], capture_output=True, timeout=30, check=False)
    assert ended.returncode == 2 and f"cannot listen on 127.0.0.1:{port}" in ended.stderr.decode()
