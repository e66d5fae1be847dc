"""The real gateway as a child process on a free port, and its log."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.patience import PATIENCE_S, wait_for

START_S = 180.0
"""Importing takes seconds, on a machine with much else to do more than half a minute."""
_STATUS = re.compile(r"^(VmRSS|VmHWM):\s+(\d+) kB$", re.MULTILINE)
_SHOWN_REQUESTS = 5


class Process:
    """A `gateway` command that writes its log to a file. Whatever is waited for in vain shows that log."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    def log(self) -> str:
        """Everything written to standard error so far."""
        return self._log.read_text(encoding="utf-8", errors="surrogateescape")

    def log_lines(self) -> list[dict[str, Any]]:
        """The log's whole lines; that each is JSON is part of the contract."""
        return [json.loads(line) for line in self.log().split("\n")[:-1]]

    def events(self, name: str) -> list[dict[str, Any]]:
        """The whole lines so far of that name, in order; a traceback of a process that broke is passed over."""
        lines = (line for line in self.log().split("\n")[:-1] if line.startswith("{"))
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def wait_for(
        self, condition: Callable[[], object], what: str, timeout_s: float = PATIENCE_S, *, alive: bool = True
    ) -> None:
        """Return once `condition` holds; `alive`: it never will if the process has ended."""

        def holds() -> object:
            ended = self.process.poll()
            if (held := condition()) or not alive or ended is None:
                return held
            raise AssertionError(f"ended with status {ended} before: {what}\n{self._telling()}")

        wait_for(holds, what, log=self._telling, timeout_s=timeout_s)

    def _telling(self) -> str:
        """The log, without all but the last of its many lines about requests."""
        lines = self.log().split("\n")
        requests = [place for place, line in enumerate(lines) if '"event":"request"' in line]
        passed_over = set(requests[:-_SHOWN_REQUESTS])
        return "\n".join(line for place, line in enumerate(lines) if place not in passed_over)

    def wait_for_log(self, text: str, timeout_s: float = PATIENCE_S) -> str:
        """The log, once it holds `text`."""
        self.wait_for(lambda: text in self.log(), f"{text!r} in the log", timeout_s, alive=False)
        return self.log()

    def wait_for_event(
        self, name: str, count: int = 1, timeout_s: float = PATIENCE_S
    ) -> list[dict[str, Any]]:
        """The lines of that name, once there are `count` of them or more."""
        self.wait_for(lambda: len(self.events(name)) >= count, f"{name} for the {count}. time", timeout_s)
        return self.events(name)

    def ended(self, timeout_s: float = PATIENCE_S) -> int:
        """The exit status, once it has ended by itself or by a signal sent before."""
        self.wait_for(lambda: self.process.poll() is not None, "its end", timeout_s, alive=False)
        return self.process.wait()

    def stop(self, timeout_s: float = PATIENCE_S) -> int:
        """Ask it to end; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.ended(timeout_s)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()


class Gateway(Process):
    """A running `understudy serve`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, workers: int = 1) -> None:
        super().__init__(process, log)
        listening = self.wait_for_event("listening", workers, START_S)
        self.port = int(listening[0]["url"].rpartition(":")[2])
        self.worker = int(listening[0]["pid"])
        """The process id of the first worker."""

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/v1"

    def post(
        self, path: str, body: object, more: Mapping[str, str] | None = None
    ) -> tuple[bytes, Mapping[str, str]]:
        """POST JSON over a connection of its own, so that any worker may take it; the answer's body and headers.

        `more`: further headers of the request.
        """
        data = json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Authorization": "Bearer sk-client"}
        request = Request(self.url + path, data, headers | dict(more or {}))
        with urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.read(), answer.headers

    def figure(self, series: str) -> float:
        """The sum of the series of this name that have these labels, and maybe others, whichever worker is asked."""
        name, _, labels = series.partition("{")
        wanted = [label for label in labels.rstrip("}").split(",") if label]
        with urlopen(f"{self.origin}/metrics", timeout=PATIENCE_S) as answer:
            lines = answer.read().decode().splitlines()
        return sum(
            float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith(name) and all(label in line for label in wanted)
        )

    def helper(self) -> int:
        """The process id of the only child that is no worker: it never said that it listens."""
        pid = self.process.pid
        children = {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
        (found,) = children - {int(event["pid"]) for event in self.events("listening")}
        return found

    def memory_bytes(self) -> int:
        """Resident now, of the first worker."""
        return self._memory()["VmRSS"]

    def forget_peak(self) -> None:
        """Start measuring the peak anew."""
        Path(f"/proc/{self.worker}/clear_refs").write_text("5")

    def peak_bytes(self) -> int:
        """Most that was resident since the peak was forgotten."""
        return self._memory()["VmHWM"]

    def _memory(self) -> dict[str, int]:
        text = Path(f"/proc/{self.worker}/status").read_text()
        return {name: int(kib) * 1024 for name, kib in _STATUS.findall(text)}


def command(*arguments: str, module: str = "understudy") -> list[str]:
    """The command line, run by this interpreter."""
    return [sys.executable, "-m", module, *arguments]


@contextmanager
def _spawned(
    words: Sequence[str], environment: Mapping[str, str], cwd: Path | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                words,
                stderr=sink,
                stdout=subprocess.DEVNULL,
                env=environment,
                cwd=cwd,
            )
        try:
            yield process, log
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
            process.kill()
            process.wait()


@contextmanager
def started(
    *arguments: str, environment: Mapping[str, str] | None = None, module: str = "understudy"
) -> Iterator[Process]:
    """Any command that goes on until it is stopped, which it is afterwards at the latest."""
    with _spawned(command(*arguments, module=module), {**os.environ, **(environment or {})}) as (
        process,
        log,
    ):
        yield Process(process, log)


@contextmanager
def running(
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    workers: int = 1,
    module: str = "understudy",
) -> Iterator[Gateway]:
    """`understudy serve` with those arguments on a free port, ended afterwards. Without admin pages, unless asked for.

    `workers`: how many must listen before it is used; the arguments say how many there are. `module` has the command line.
    """
    if "--admin" not in arguments:
        arguments = (*arguments, "--admin", "off")
    words = [sys.executable, "-m", module, "serve", "--port", "0", *arguments]
    with serving(words, {**os.environ, **(environment or {})}, workers=workers) as gateway:
        yield gateway


@contextmanager
def serving(
    words: Sequence[str], environment: Mapping[str, str], *, workers: int = 1, cwd: Path | None = None
) -> Iterator[Gateway]:
    """A gateway by its whole command line and environment, ended afterwards."""
    with _spawned(words, environment, cwd) as (process, log):
        yield Gateway(process, log, workers)


def ran(
    *arguments: str, timeout_s: float = START_S, environment: Mapping[str, str] | None = None
) -> Sequence[Any]:
    """(exit status, standard output, standard error) of a command that ends by itself."""
    done = subprocess.run(
        command(*arguments),
        capture_output=True,
        timeout=timeout_s,
        env={**os.environ, **(environment or {})},
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()
