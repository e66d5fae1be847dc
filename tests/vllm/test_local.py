"""vLLM inside the gateway: the real engine comes up, answers, is left, dies, comes up again, and ends with its gateway.

Runs the gateway with the interpreter of vLLM's environment, which `make vllm-env` makes fit for it.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tiny_models import building
from benchmarks.vllm import environment as vllm_environment
from benchmarks.vllm import gateway as vllm_gateway
from benchmarks.vllm import serving as vllm_serving
from tests.vllm import held

ROOT = Path(__file__).resolve().parents[2]
START_S = 600.0
SHORT = {"max_tokens": 5, "ignore_eos": True}
LONG = {"max_tokens": 900, "stream": True}
SMALL_MACHINE = [
    *("--dtype", "float32", "--max-model-len", str(vllm_serving.CONTEXT_TOKENS)),
    *("--kv-cache-memory-bytes", str(2**27), "--enforce-eager", "--block-size", "32"),
    *("--enable-prompt-tokens-details", *held.ARGUMENTS),
]


@dataclass
class Local:
    """A gateway with an engine inside."""

    process: subprocess.Popen[bytes]
    log: Path
    slow: Path
    """While this file is there, the engine takes its time for each token."""
    port: int = 0

    def events(self) -> list[str]:
        """What its log tells, event by event; vLLM's own processes write beside it."""
        found = []
        # The last line may be half written yet.
        for line in self.log.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]:
            if line.startswith('{"time"'):
                told = json.loads(line)
                found.append(told["event"])
                if told["event"] == "listening":
                    self.port = int(told["url"].rpartition(":")[2])
        return found

    @contextmanager
    def asked(self, method: str, path: str, body: Any = None) -> Iterator[http.client.HTTPResponse]:
        """An answer whose body may still be coming; leaving the context hangs up."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            try:
                yield response
            finally:
                response.close()
        finally:
            connection.close()

    def status(self, path: str) -> int:
        with self.asked("GET", path) as response:
            return response.status

    def streaming(self, **fields: Any) -> AbstractContextManager[http.client.HTTPResponse]:
        body = {"model": "guide", "messages": [{"role": "user", "content": "Which town?"}]} | SHORT | fields
        return self.asked("POST", "/v1/chat/completions", body)

    def chat(self, **fields: Any) -> tuple[int, bytes]:
        with self.streaming(**fields) as response:
            return response.status, response.read()

    def ready(self) -> bool:
        return bool(self.events()) and bool(self.port) and self.status("/readyz") == 200

    def until(self, true: Callable[[], object], what: str, timeout_s: float = START_S) -> None:
        end = time.monotonic() + timeout_s
        while not true():
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            assert time.monotonic() < end, f"never: {what}\n{self.log.read_text()[-2000:]}"
            time.sleep(0.2)


@contextmanager
def running(folder: Path, **engine: Any) -> Iterator[Local]:
    environment, model = vllm_environment.folder(), building.folder() / "understudy"
    if not vllm_gateway.is_fit(environment):
        pytest.skip(f"the gateway's packages are not in {environment}: run `make vllm-env`")
    if not building.is_built(building.folder(), "understudy"):
        pytest.skip("the tiny models are not built: run `make tiny-models`")
    config = {
        "listen": {"port": 0, "grace_s": 1},
        "engines": {"here": {"kind": "vllm-local", "model_dir": str(model), "args": SMALL_MACHINE} | engine},
        "models": {"guide": {"engines": ["here"]}},
    }
    path, log, slow = folder / "config.yaml", folder / "log", folder / "slow"
    path.write_text(json.dumps(config))
    variables = {**os.environ, **vllm_serving.OFFLINE, **held.variables(slow)}
    variables["PYTHONPATH"] += os.pathsep + str(ROOT)
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [str(vllm_gateway.python(environment)), "-m", "understudy", "serve", "--config", str(path)],
            stdout=sink,
            stderr=sink,
            env=variables,
            cwd=ROOT,
        )
    local = Local(process, log, slow)
    try:
        yield local
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def test_a_whole_life(tmp_path: Path) -> None:
    """One start serves all of it: bringing an engine up takes a minute."""
    with running(tmp_path) as local:
        local.until(lambda: "listening" in local.events(), "listening")
        status, said = local.chat()
        error = json.loads(said)["error"]
        assert status == 503 and "is starting" in error["message"] and error["code"]
        assert local.status("/healthz") == 200
        assert local.status("/readyz") == 503
        local.until(local.ready, "ready")
        local.until(lambda: "engine_up" in local.events(), "its coming up in the log", 10)

        _it_answers_as_a_server_would(local)
        _a_client_that_hangs_up_frees_it(local)
        _it_comes_up_again_after_its_processes_died(local)

        children = _below(local.process.pid)
        local.process.send_signal(signal.SIGTERM)
        assert local.process.wait(60) == 0
        end = time.monotonic() + 20
        while any(Path(f"/proc/{pid}").exists() for pid in children):
            assert time.monotonic() < end, "the engine outlived its gateway"
            time.sleep(0.1)


def _it_answers_as_a_server_would(local: Local) -> None:
    whole = json.loads(local.chat(logprobs=True, top_logprobs=2)[1])
    assert whole["choices"][0]["finish_reason"] == "length" and whole["usage"]["completion_tokens"] == 5
    assert len(whole["choices"][0]["logprobs"]["content"]) == 5
    _, stream = local.chat(stream=True, stream_options={"include_usage": True})
    events = [line[6:] for line in stream.decode().splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"
    assert chunks[-1]["usage"]["completion_tokens"] == 5
    status, wrong = local.chat(temperature=-1)
    assert status == 400 and json.loads(wrong)["error"]["param"] == "temperature"


def _a_client_that_hangs_up_frees_it(local: Local) -> None:
    with held.slowed_by(local.slow):
        with local.streaming(**LONG) as stream:
            stream.read(400)
        local.until(
            lambda: '"outcome":"aborted"' in local.log.read_text(), "an aborted request in the log", 20
        )
    # Had it gone on, these few tokens would have had to share the engine for seconds.
    assert local.chat()[0] == 200


def _it_comes_up_again_after_its_processes_died(local: Local) -> None:
    with held.slowed_by(local.slow), local.streaming(**LONG) as stream:
        stream.read(400)
        for pid in _below(local.process.pid, "VLLM::Worker"):
            os.kill(pid, signal.SIGKILL)
        assert b"InternalServerError" in stream.read()
    local.until(lambda: "engine_died" in local.events(), "its death in the log", 30)
    status, refused = local.chat()
    assert status == 503 and b"starting again" in refused
    local.until(local.ready, "ready again")
    assert local.chat()[0] == 200
    local.until(lambda: local.events().count("engine_up") == 2, "its coming up again in the log", 10)
    assert "engine_restarting" in local.events()


def test_arguments_that_vllm_does_not_take_are_told_and_not_tried_again(tmp_path: Path) -> None:
    with running(tmp_path, args=["--nonsense", "1"]) as local:
        local.until(lambda: "engine_cannot_start" in local.events(), "the refusal")
        status, refused = local.chat()
        assert status == 503 and b"--nonsense" in refused
        assert "engine_restarting" not in local.events()


def _below(pid: int, name: str = "") -> list[int]:
    """All processes below one, or those called `name`."""
    listed = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    parents = {int(line.split()[0]): (int(line.split()[1]), line) for line in listed.splitlines()}
    found = []
    for each, (parent, line) in parents.items():
        while parent in parents and parent != pid:
            parent = parents[parent][0]
        if parent == pid and name in line:
            found.append(each)
    return found
