"""The garbage collector in a process that serves."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
from collections.abc import Iterator

import pytest

from understudy.processes.garbage_collection import calm_collector


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    # Whatever test served in this process before has calmed it already.
    gc.set_threshold(700, 10, 10)
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.mark.slow
def test_what_was_built_is_not_walked_again_and_looks_become_rare() -> None:
    before = gc.get_freeze_count()
    kept = [[] for _ in range(1000)]
    calm_collector()
    assert gc.get_freeze_count() >= before + len(kept)
    assert gc.get_threshold()[0] > 700
    assert gc.isenabled()


_THREADS = """
import ctypes, threading
from understudy.processes.garbage_collection import few_arenas

few_arenas()
together = threading.Barrier(12)

def work():
    kept = [bytes(5000) for _ in range(10)]
    together.wait()

threads = [threading.Thread(target=work) for _ in range(11)]
for thread in threads:
    thread.start()
ctypes.CDLL(None).malloc_stats()
together.wait()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of another C library")
@pytest.mark.parametrize(("told", "arenas"), [({}, 2), ({"MALLOC_ARENA_MAX": "5"}, 5)])
def test_threads_share_two_arenas_unless_the_environment_says_otherwise(
    told: dict[str, str], arenas: int
) -> None:
    command = [sys.executable, "-c", _THREADS]
    env = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | told
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.count("Arena ") == arenas
