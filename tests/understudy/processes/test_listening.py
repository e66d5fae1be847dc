"""Who may have a port together with whom."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from understudy.processes.listening import bind, kept_port, unix_socket


def test_a_kept_port_is_nobody_elses_even_before_anything_listens(tmp_path: Path) -> None:
    with kept_port("127.0.0.1", 0, tmp_path / "a") as kept:
        port = kept.getsockname()[1]
        for folder in (tmp_path / "b", None):
            with pytest.raises(OSError, match="in use"), kept_port("127.0.0.1", port, folder):
                pass
        with pytest.raises(OSError, match="in use"):
            bind("127.0.0.1", port)


def test_workers_and_a_gateway_of_the_same_folder_share_it(tmp_path: Path) -> None:
    with kept_port("127.0.0.1", 0, tmp_path) as kept:
        port = kept.getsockname()[1]
        with bind("127.0.0.1", port, shared=True) as worker:
            worker.listen()
            with kept_port("127.0.0.1", port, tmp_path), bind("127.0.0.1", port, shared=True) as another:
                another.listen()
            with pytest.raises(OSError, match="in use"), kept_port("127.0.0.1", port, tmp_path / "b"):
                pass


def test_whoever_took_over_keeps_it_for_the_same_folder(tmp_path: Path) -> None:
    first = kept_port("127.0.0.1", 0, tmp_path)
    port = first.__enter__().getsockname()[1]
    with kept_port("127.0.0.1", port, tmp_path):
        first.__exit__(None, None, None)
        with kept_port("127.0.0.1", port, tmp_path):
            pass
        with pytest.raises(OSError, match="in use"), kept_port("127.0.0.1", port, tmp_path / "b"):
            pass
    assert not list(tmp_path.iterdir()), "nothing is left in the folder"


def test_without_a_folder_nobody_joins() -> None:
    with kept_port("127.0.0.1", 0, None) as kept:
        port = kept.getsockname()[1]
        with pytest.raises(OSError, match="in use"), kept_port("127.0.0.1", port, None):
            pass


def test_a_port_is_free_again_at_once_though_connections_linger(tmp_path: Path) -> None:
    with kept_port("127.0.0.1", 0, tmp_path) as kept:
        port = kept.getsockname()[1]
        with bind("127.0.0.1", port, shared=True) as worker:
            worker.setblocking(True)
            worker.listen()
            with socket.create_connection(("127.0.0.1", port)):
                worker.accept()[0].close()
    with kept_port("127.0.0.1", port, tmp_path / "b"):
        pass


def _keep(folder: Path, says: Connection) -> None:
    with kept_port("127.0.0.1", 0, folder) as kept:
        port = kept.getsockname()[1]
        child = multiprocessing.get_context("fork").Process(target=_outlive, args=(port, says))
        child.start()
        child.join()


def _outlive(port: int, says: Connection) -> None:
    with bind("127.0.0.1", port, shared=True) as sock:
        sock.listen()
        says.send((port, os.getpid()))
        signal.pause()


def test_a_gateway_that_was_killed_is_followed_though_its_workers_still_listen(tmp_path: Path) -> None:
    """As a service manager restarts it: at once."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_keep, args=(tmp_path, there))
    process.start()
    port, worker = here.recv()
    process.kill()
    process.join()
    try:
        with kept_port("127.0.0.1", port, tmp_path):
            pass
        with pytest.raises(OSError, match="in use"), kept_port("127.0.0.1", port, tmp_path / "b"):
            pass
    finally:
        os.kill(worker, signal.SIGKILL)


def test_a_folder_that_is_none_does_not_keep_the_port_from_being_bound(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with kept_port("127.0.0.1", 0, tmp_path / "file") as kept:
        assert kept.getsockname()[1]


def test_a_unix_socket_is_taken_from_nobody_who_listens_on_it_nor_over_a_file(tmp_path: Path) -> None:
    path = tmp_path / "gateway.sock"
    with unix_socket(path) as first:
        assert first is not None
        first.listen()
        with pytest.raises(OSError, match="in use"), unix_socket(path):
            pass
        assert path.is_socket()
    assert not path.exists()
    path.write_text("a file")
    with pytest.raises(OSError, match="in use"), unix_socket(path):
        pass
    assert path.read_text() == "a file"
    with unix_socket(None) as none:
        assert none is None
