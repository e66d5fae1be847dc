"""What is tried: a gateway of two workers with learner and admin pages, three engines, a small disk for the data folder."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.chaos.upstream import INPUT_NANO, OUTPUT_NANO
from benchmarks.processes import free_port, logged, started

KEYS = {name: f"sk-chaos-{name}-0123456789" for name in ("open", "wide", "tight", "rated")}
"""Secrets of clients' keys: without limits; with a budget that nothing reaches, one that is spent, a rate."""
ENGINES = ("a", "b", "c")
_TENANTS = {"open": "acme", "wide": "acme", "tight": "beta", "rated": "beta"}
_RATE_PER_MINUTE = 60
_DISK = "96m"
_READY_WITHIN_S = 180.0
_STOPS_WITHIN_S = 90.0
_TOLD = ("unexpected_error", "chore_failed", "learner_failed", "store_cannot_write", "worker_died")
_LOCK = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
db.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
db.execute("ROLLBACK")
"""


def configuration(port: int, urls: dict[str, str], data: Path, tight_usd: float) -> dict[str, Any]:
    """The gateway's. Limits of time are short, so that a stopped engine is left within seconds."""
    price = {"input_usd_per_mtok": INPUT_NANO / 1e3, "output_usd_per_mtok": OUTPUT_NANO / 1e3}
    patience = {"connect_s": 2, "first_data_s": 2, "gap_s": 2, "answer_s": 5, "continues": "prefill"}
    limits: dict[str, Any] = {
        "open": {},
        "wide": {"budgets": [{"usd": 1000, "per": "total"}]},
        "tight": {"budgets": [{"usd": tight_usd, "per": "total"}]},
        "rated": {"requests_per_minute": _RATE_PER_MINUTE},
    }
    return {
        "listen": {"port": port, "workers": 2, "grace_s": 10},
        "log": {"requests": False},
        "engines": {
            name: {"base_url": f"{url}/v1", "api_key": "sk-up", "price": price, "advanced": patience}
            for name, url in urls.items()
        },
        "models": {
            "three": {"engines": ["a", "b", "c"], "policy": "fixed", "proof": "off"},
            "pair": {"engines": ["b", "a"], "policy": "few_shot", "proof": "off"},
        },
        "memory": {"data_dir": str(data)},
        "feedback": {"advanced": {"per_minute": 1_000_000}},
        "admin": {"port": free_port()},
        "keys": {
            name: {"secret": secret, "tenant": _TENANTS[name], "limits": limits[name]}
            for name, secret in KEYS.items()
        },
    }


@contextmanager
def disk(folder: Path) -> Iterator[str]:
    """Mount a small disk of its own at `folder` and say what it is; "" where this user may not, and it is a plain folder."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", str(folder)]
    mounted = False
    with suppress(OSError):
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield f"tmpfs of {_DISK}" if mounted else ""
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)


@dataclass
class Site:
    """The processes, by name, and what may be done to them."""

    folder: Path
    disk: str
    """What the data folder lies on; empty: nothing that could be filled."""
    port: int
    config: dict[str, Any]
    ports: dict[str, int]
    running: ExitStack
    engines: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    logs: list[Path] = field(default_factory=list)
    server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def urls(self) -> list[str]:
        return [self.url]

    @property
    def database_url(self) -> str:
        """Of PostgreSQL; empty: the data folder holds the database."""
        return str(self.config["memory"].get("database_url", ""))

    @property
    def data(self) -> Path:
        return self.folder / "disk" / "data"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger"

    # ---- engines

    def start_engine(self, name: str) -> None:
        """Also again, on the same port."""
        command = [sys.executable, "-m", "benchmarks.chaos.upstream", str(self.ports[name]), str(self.ledger)]
        self.engines[name] = self.running.enter_context(started(command, self.folder / f"{name}.log"))

    def signal_engine(self, name: str, number: int) -> None:
        self.engines[name].send_signal(number)
        if number == signal.SIGKILL:
            self.engines[name].wait()

    # ---- the gateway

    def write_config(self) -> None:
        (self.folder / "config.json").write_text(json.dumps(self.config))

    def start(self) -> None:
        """The gateway: at first, and again after its supervisor was killed. Returns at once."""
        self.logs.append(self.folder / f"gateway-{len(self.logs)}.log")
        command = [sys.executable, "-m", "understudy", "serve", "--config", str(self.folder / "config.json")]
        self.server = self.running.enter_context(started(command, self.logs[-1]))

    def wait_until_ready(self) -> None:
        """Both workers of the latest start listen. Raises RuntimeError."""
        assert self.server is not None
        end = time.monotonic() + _READY_WITHIN_S
        while len(self.events("listening")) < 2:
            if self.server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the gateway does not start: {self.logs[-1].read_text()[-3000:]}")
            time.sleep(0.1)

    def events(self, name: str) -> list[dict[str, Any]]:
        """Lines of that name in the log since the supervisor was started last."""
        return [line for line in logged(self.logs[-1]) if line.get("event") == name]

    def told(self) -> dict[str, int]:
        """How often the gateway logged what needs a look."""
        lines = [line for log in self.logs for line in logged(log)]
        return dict(Counter(str(line["event"]) for line in lines if line.get("event") in _TOLD))

    def workers(self) -> list[int]:
        """Process ids of the workers that live."""
        return [pid for pid in (int(line["pid"]) for line in self.events("listening")) if _lives(pid)]

    def learner(self) -> int:
        """The learner's process id, once it lives: each reload starts it anew. Raises RuntimeError."""
        end = time.monotonic() + _READY_WITHIN_S
        while time.monotonic() < end:
            for line in reversed(self.events("learning")):
                if _lives(int(line["pid"])):
                    return int(line["pid"])
            time.sleep(0.2)
        raise RuntimeError("the learner does not come back")

    def kill_server(self) -> None:
        assert self.server is not None
        self.server.kill()
        self.server.wait()

    def hang_up(self) -> None:
        """Change the configuration and have it read; returns when it is in force. Raises TimeoutError."""
        assert self.server is not None
        before = len(self.events("config_reloaded"))
        self.config["models"][f"further-{time.monotonic_ns()}"] = {"engines": ["a"]}
        self.write_config()
        self.server.send_signal(signal.SIGHUP)
        end = time.monotonic() + 60
        while len(self.events("config_reloaded")) == before:
            if time.monotonic() > end:
                raise TimeoutError(f"no reload within a minute: {self.events('reload_refused')}")
            time.sleep(0.1)

    def stop(self) -> int:
        """The gateway's exit status."""
        assert self.server is not None
        self.server.terminate()
        return self.server.wait(_STOPS_WITHIN_S)

    # ---- the store

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Nothing can be written meanwhile to the small disk; without one no file of the gateway may grow (RLIMIT_FSIZE)."""
        if not self.disk:
            with self._no_file_may_grow():
                yield
            return
        filler = self.folder / "disk" / "filler"
        try:
            _fill(filler)
            yield
        finally:
            filler.unlink()

    @contextmanager
    def _no_file_may_grow(self) -> Iterator[None]:
        assert self.server is not None
        family = [self.server.pid, *_children(self.server.pid)]
        before = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in family}
        for pid, (_, hard) in before.items():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, hard))
        try:
            yield
        finally:
            for pid, limits in before.items():
                with suppress(ProcessLookupError):
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)

    def lock_store(self, for_s: float) -> None:
        """Another process holds the database's write lock for so long. Returns when it is over."""
        command = [sys.executable, "-c", _LOCK, str(self.data / "understudy.db"), str(for_s)]
        subprocess.run(command, capture_output=True, check=True)


@contextmanager
def site(folder: Path, tight_usd: float, *, kept: bool = False) -> Iterator[Site]:
    """All of it, running and ready; ended afterwards. `kept`: the data folder is then copied to `folder`/data."""
    with disk(folder / "disk") as mounted, ExitStack() as running:
        ports = {name: free_port() for name in ENGINES}
        port = free_port()
        urls = {name: f"http://127.0.0.1:{ports[name]}" for name in ENGINES}
        config = configuration(port, urls, folder / "disk" / "data", tight_usd)
        made = Site(folder, mounted, port, config, ports, running)
        made.ledger.touch()
        made.write_config()
        if kept:
            # The small disk goes with its mount. Entered before the processes, this comes after their end.
            running.callback(_copied, made.data, folder / "data")
        for name in ENGINES:
            made.start_engine(name)
        made.start()
        made.wait_until_ready()
        yield made


def _copied(data: Path, to: Path) -> None:
    with suppress(OSError):
        shutil.copytree(data, to)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096):
            with suppress(OSError):
                while True:
                    file.write(b"x" * size)
