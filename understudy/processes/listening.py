"""Binds the sockets that processes listen on."""

from __future__ import annotations

import errno
import fcntl
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A bound socket; `shared` lets several processes bind the same port. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        sock.bind((host, port))
    except BaseException:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


@contextmanager
def unix_socket(path: Path | None) -> Iterator[socket.socket | None]:
    """A socket bound to a path, for forked processes to listen on together; the file is gone afterwards. Raises OSError."""
    if path is None:
        yield None
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        _make_way(path)
        sock.bind(str(path))
        path.chmod(0o660)
        sock.setblocking(False)
        try:
            yield sock
        finally:
            with suppress(OSError):
                path.unlink()


def _make_way(path: Path) -> None:
    """Remove a socket that nobody listens on any more; bind refuses what is left."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        try:
            other.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()


@contextmanager
def kept_port(host: str, port: int, folder: Path | None) -> Iterator[socket.socket]:
    """A bound socket that never listens, and keeps a port for processes which then bind it `shared`. Raises OSError.

    Only a gateway with the same data folder may join it there, to take over from this one; without a folder nobody may.
    """
    try:
        sock = bind(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or folder is None or not _is_served_from(folder, port):
            raise
        sock = bind(host, port, shared=True)
    with sock:
        # From here on whoever binds the port by itself fails, and who binds it to share it does not: who may try that is
        # decided above. (A socket that may be reused, and does not listen, would stand in nobody's way.)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        with _served_from(folder, sock.getsockname()[1]):
            yield sock


def _lock_file(folder: Path, port: int) -> Path:
    return folder / f"listening-{port}.lock"


def _is_served_from(folder: Path, port: int) -> bool:
    """Whether a gateway with this data folder has the port, or one of its processes that outlived it."""
    try:
        with _lock_file(folder, port).open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def _served_from(folder: Path | None, port: int) -> Iterator[None]:
    """Says so in the data folder, meanwhile, for `_is_served_from`. Forked processes go on saying so while they live."""
    file = None
    # A folder that cannot be written to is told of where it is opened as memory.
    with suppress(OSError):
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = _lock_file(folder, port).open("w")
            fcntl.flock(file, fcntl.LOCK_SH)
    try:
        yield
    finally:
        if file is not None:
            with file, suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                Path(file.name).unlink()
