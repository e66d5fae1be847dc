"""The real gateway as a child process on a free port."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START_S = 180.0
"""Importing takes seconds, on a machine with much else to do more than half a minute."""
_STATUS = re.compile(r"^(VmRSS|VmHWM):\s+(\d+) kB$", re.MULTILINE)


class Gateway:
    """A running `understudy serve`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log
        self.port = self._wait_until_listening()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def log(self) -> str:
        """Everything written to standard error so far."""
        return self._log.read_text(encoding="utf-8", errors="surrogateescape")

    def log_lines(self) -> list[dict[str, Any]]:
        """The log's lines; that each is JSON is part of the contract."""
        return [json.loads(line) for line in self.log().splitlines()]

    def wait_for_log(self, text: str, timeout_s: float = 10.0) -> str:
        """The log, once it holds `text`."""
        end = time.monotonic() + timeout_s
        while text not in (log := self.log()):
            assert time.monotonic() < end, f"{text!r} never appeared in the log:\n{log[-2000:]}"
            time.sleep(0.02)
        return log

    def memory_bytes(self) -> int:
        """Resident now."""
        return self._memory()["VmRSS"]

    def forget_peak(self) -> None:
        """Start measuring the peak anew."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def peak_bytes(self) -> int:
        """Most that was resident since the peak was forgotten."""
        return self._memory()["VmHWM"]

    def stop(self, timeout_s: float = 15.0) -> int:
        """Ask it to end; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def _memory(self) -> dict[str, int]:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return {name: int(kib) * 1024 for name, kib in _STATUS.findall(text)}

    def _wait_until_listening(self) -> int:
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            found = re.search(r'"event":"listening","url":"http://[^"]*:(\d+)"', self.log())
            if found:
                return int(found.group(1))
            if self.process.poll() is not None:
                raise RuntimeError(f"the gateway ended at once ({self.process.returncode}):\n{self.log()}")
            time.sleep(0.01)
        self.process.kill()
        raise RuntimeError(f"the gateway is not listening after {START_S} s:\n{self.log()}")


def command(*arguments: str) -> list[str]:
    """The command line, run by this interpreter."""
    return [sys.executable, "-m", "gateway", *arguments]


@contextmanager
def running(*arguments: str, environment: dict[str, str] | None = None) -> Iterator[Gateway]:
    """`understudy serve` with those arguments on a free port, ended afterwards. Without admin pages, unless asked for."""
    if "--admin" not in arguments:
        arguments = (*arguments, "--admin", "off")
    with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                command("serve", "--port", "0", *arguments),
                stderr=sink,
                stdout=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})},
            )
        try:
            gateway = Gateway(process, log)
            yield gateway
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def ran(*arguments: str, timeout_s: float = 30.0, environment: dict[str, str] | None = None) -> Sequence[Any]:
    """(exit status, standard output, standard error) of a command that ends by itself."""
    done = subprocess.run(
        command(*arguments),
        capture_output=True,
        timeout=timeout_s,
        env={**os.environ, **(environment or {})},
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()
