"""A running gateway takes orders over a Unix socket that only its user can reach: one word in, one line of JSON out.

The socket lies in the data folder, or without one in the folder for temporary files, and is named after the process.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

ORDERS = ("reload",)
REPLACED = ("replaced",)
"""What a supervisor tells a worker whose successor serves: to finish what it has open, and end."""
REFUSED = "refused"
"""What it tells every worker, with the reason, when it does not take a configuration."""
_MOST_BYTES = 64 * 1024
_CONNECT_S = 5.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of an order."""

    done: bool
    text: str
    """For a person, without secrets."""

    def line(self) -> bytes:
        """As it is sent."""
        return json.dumps(asdict(self)).encode() + b"\n"


class NobodyThere(Exception):
    """No gateway takes orders there. The text says where was looked, and what to do about it."""


def control_folder(data_dir: Path | None) -> Path:
    """Where the sockets of gateways with this data folder lie."""
    if data_dir is not None:
        return data_dir / "control"
    return Path(tempfile.gettempdir()) / f"understudy-control-{os.getuid()}"


@contextmanager
def listening(folder: Path) -> Iterator[socket.socket | None]:
    """This process's socket, gone afterwards. None where none can be made there, which is logged: signals work even so."""
    made: socket.socket | None = None
    name = f"{os.getpid()}.sock"
    try:
        with _opened(folder, make=True) as at:
            _clear(folder)
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            before = os.umask(0o177)
            try:
                made.bind(f"{at}/{name}")
            finally:
                os.umask(before)
            made.listen(128)
            made.setblocking(False)
    except OSError as error:
        log.warning("control_not_listening", folder=str(folder), reason=error.strerror or str(error))
        if made is not None:
            made.close()
        made = None
    try:
        yield made
    finally:
        if made is not None:
            made.close()
            with suppress(OSError):
                (folder / name).unlink()


def order(folder: Path, what: str, pid: int | None, *, timeout_s: float) -> Verdict:
    """Have the gateway do it. `pid`: which one, where several run. Raises NobodyThere, and TimeoutError."""
    found = {}
    with suppress(OSError), _opened(folder) as at:
        for path in folder.glob("*.sock"):
            if path.stem.isdigit() and (pid is None or int(path.stem) == pid):
                with suppress(OSError):
                    found[int(path.stem)] = _connected(f"{at}/{path.name}", timeout_s)
    try:
        if not found:
            which = f"process {pid} takes no" if pid is not None else "no gateway takes"
            raise NobodyThere(
                f"{which} orders in {folder}: name its data folder with --data, and run this as its user"
            )
        if len(found) > 1:
            pids = ", ".join(map(str, sorted(found)))
            raise NobodyThere(f"several gateways run there (processes {pids}): choose one with --pid")
        (connection,) = found.values()
        connection.sendall(f"{what}\n".encode())
        return _verdict(connection)
    finally:
        for connection in found.values():
            connection.close()


def asked(connection: socket.socket) -> str:
    """The order of a client that has connected; empty for anything else. Waits for a second at most."""
    connection.settimeout(1.0)
    try:
        word = connection.recv(64).decode("ascii", "replace").strip()
    except OSError:
        return ""
    return word if word in ORDERS else ""


def answer(connection: socket.socket, verdict: Verdict) -> None:
    """Send the verdict, and be done with the client."""
    with connection, suppress(OSError):
        connection.sendall(verdict.line())


def _connected(path: str, timeout_s: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_CONNECT_S)
        connection.connect(path)
        connection.settimeout(timeout_s)
    except OSError:
        connection.close()
        raise
    return connection


def _verdict(connection: socket.socket) -> Verdict:
    received = b""
    while not received.endswith(b"\n") and len(received) < _MOST_BYTES:
        chunk = connection.recv(4096)
        if not chunk:
            return Verdict(False, "the gateway ended before it answered")
        received += chunk
    return Verdict(**json.loads(received))


@contextmanager
def _opened(folder: Path, *, make: bool = False) -> Iterator[str]:
    """A short name of the folder: a socket's path has at most 107 bytes. Raises OSError, also where another user owns it."""
    if make:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid not in (os.getuid(), 0):
            raise PermissionError(1, f"{folder} belongs to another user")
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _clear(folder: Path) -> None:
    """Remove the sockets of gateways that were killed."""
    for path in folder.glob("*.sock"):
        if path.stem.isdigit() and not Path(f"/proc/{path.stem}").exists():
            with suppress(OSError):
                path.unlink()
