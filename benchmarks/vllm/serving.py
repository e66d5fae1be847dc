"""Starts a real vLLM server on a model folder, waits until it serves, reads its figures, and stops it for certain.

On a CPU with the environment of benchmarks.vllm.environment; where a GPU serves already, its URL is enough (`remote`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.processes import free_port
from benchmarks.vllm.environment import command

START_S = 600.0
"""Importing vLLM takes most of it; on a machine with other work to do, minutes."""
STOP_S = 30.0
CONTEXT_TOKENS = 1024
_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{[^}]*\})? (?P<value>\S+)$", re.MULTILINE)

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "GLOO_SOCKET_IFNAME": "lo",
    # Else the first request that asks for log-probabilities waits twenty seconds for a compiler.
    "TORCHDYNAMO_DISABLE": "1",
    "OMP_NUM_THREADS": "1",
    # Servers side by side would each bind a thread to the same core and hold off the other.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


@dataclass(slots=True)
class Served:
    """A vLLM server. `process` is None if somebody else started it: then it is only asked, never stopped."""

    url: str
    """With /v1, as an OpenAI client would be given it."""
    model: str
    process: subprocess.Popen[bytes] | None = None
    log: Path | None = None

    @property
    def root(self) -> str:
        return self.url.removesuffix("/v1")

    def figures(self) -> dict[str, float]:
        """Its Prometheus series by name, labels summed over."""
        found: dict[str, float] = {}
        for sample in _SAMPLE.finditer(_get(self.root + "/metrics")):
            found[sample["name"]] = found.get(sample["name"], 0.0) + float(sample["value"])
        return found

    def running(self) -> int:
        """Requests it is working on."""
        return int(self.figures()["vllm:num_requests_running"])

    def is_well(self) -> bool:
        """Whether it says so itself."""
        try:
            _get(self.root + "/health", timeout_s=2.0)
        except (OSError, urllib.error.HTTPError):
            return False
        return True

    def kill(self) -> None:
        """As a crash would: every process of it at once, without a word."""
        assert self.process is not None, "a server of somebody else's"
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Asks it to end, and ends it if it does not."""
        assert self.process is not None, "a server of somebody else's"
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def remote(url: str) -> Served:
    """A server that runs already, by the URL an OpenAI client would be given; its model is the first it lists."""
    url = url.rstrip("/")
    return Served(url, json.loads(_get(url + "/models"))["data"][0]["id"])


def start(
    environment: Path,
    model: Path,
    name: str,
    folder: Path,
    *arguments: str,
    port: int = 0,
    variables: Mapping[str, str] | None = None,
) -> Served:
    """Starts a server and returns at once: `wait` for it. `folder` takes log and caches; `arguments` go to `vllm serve`,
    `variables` into its environment."""
    port = port or free_port()
    log = folder / f"vllm-{name}-{port}.log"
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [
                *(str(command(environment)), "serve", str(model), "--host", "127.0.0.1", "--port", str(port)),
                *("--served-model-name", name, "--dtype", "float32", "--max-model-len", str(CONTEXT_TOKENS)),
                *("--kv-cache-memory-bytes", str(256 * 2**20), "--enforce-eager", "--block-size", "32"),
                *("--enable-prompt-tokens-details", *arguments),
            ],
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=os.environ
            | OFFLINE
            | {"VLLM_CACHE_ROOT": str(folder / "vllm-cache")}
            | dict(variables or {}),
            # A group of its own: its workers are killed with it, and a Ctrl-C here is not theirs.
            start_new_session=True,
        )
    return Served(f"http://127.0.0.1:{port}/v1", name, process, log)


def wait(*servers: Served) -> None:
    """Until all of them serve. Raises RuntimeError with the end of the log of one that ended or is not up after START_S."""
    end = time.monotonic() + START_S
    for server in servers:
        while not server.is_well():
            assert server.process is not None and server.log is not None
            ended = server.process.poll()
            if ended is not None or time.monotonic() > end:
                why = "is not up" if ended is None else f"ended with {ended}"
                tail = server.log.read_text(encoding="utf-8", errors="replace")[-3000:]
                raise RuntimeError(f"vLLM for {server.model} {why}:\n{tail}")
            time.sleep(0.25)


@contextmanager
def serving(environment: Path, models: dict[str, Path], folder: Path) -> Iterator[dict[str, Served]]:
    """Servers for models by name, started side by side, all stopped at the end."""
    servers: dict[str, Served] = {}
    try:
        for name, model in models.items():
            servers[name] = start(environment, model, name, folder)
        wait(*servers.values())
        yield servers
    finally:
        for server in servers.values():
            server.stop()


def chat(server: Served, question: str, **fields: Any) -> dict[str, Any]:
    """One chat completion asked of the server itself, greedily; the parsed answer."""
    body = {
        "model": server.model,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
    } | fields
    request = urllib.request.Request(
        server.url + "/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        parsed: dict[str, Any] = json.load(response)
        return parsed


def _get(url: str, timeout_s: float = 30.0) -> str:
    with urllib.request.urlopen(url, timeout=timeout_s) as response:
        text: str = response.read().decode()
        return text
