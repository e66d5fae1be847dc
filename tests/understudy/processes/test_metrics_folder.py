"""The folder of a process that was killed is removed, and nobody else's."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from understudy.processes.metrics_folder import metrics_folder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def _stay(says: Connection) -> None:
    with metrics_folder() as folder:
        says.send(folder)
        says.recv()


def old(folder: Path) -> Path:
    os.utime(folder, (0, 0))
    return folder


def test_what_a_killed_process_left_is_removed_once_it_is_old(temporary: Path) -> None:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_stay, args=(there,))
    process.start()
    left = Path(here.recv())
    old(left)
    with metrics_folder():
        assert left.exists(), "it is in use"
    process.kill()
    process.join()
    os.utime(left)
    with metrics_folder():
        assert left.exists(), "it is too young to be told from one that is being made"
    old(left)
    with metrics_folder() as mine:
        assert not left.exists() and Path(mine).exists()
    assert not list(temporary.iterdir())


def test_other_folders_files_and_links_stay(temporary: Path) -> None:
    other = temporary / "understudy-data"
    other.mkdir()
    file = temporary / "understudy-metrics-file"
    file.write_text("x")
    link = temporary / "understudy-metrics-link"
    link.symlink_to(other)
    for path in (other, file):
        old(path)
    with metrics_folder():
        assert other.exists() and file.exists() and link.exists()
