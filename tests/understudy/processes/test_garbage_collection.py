"""The garbage collector in a process that serves."""

from __future__ import annotations

import gc
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


def test_what_was_built_is_not_walked_again_and_looks_become_rare() -> None:
    before = gc.get_freeze_count()
    kept = [[] for _ in range(1000)]
    calm_collector()
    assert gc.get_freeze_count() >= before + len(kept)
    assert gc.get_threshold()[0] > 700
    assert gc.isenabled()
