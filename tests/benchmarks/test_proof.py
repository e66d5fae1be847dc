"""The benchmark of the gate, on a small stream made here."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.proof.replayed import MAX_LOSS, Run, replayed
from benchmarks.proof.sockets import over_sockets
from benchmarks.proof.streams import Recorded
from benchmarks.vectors import unit

RECORDED = Recorded(
    "made up", tuple(f"request {n}" for n in range(1500)), tuple(f"label_{n % 7}" for n in range(1500))
)
VECTORS = unit(
    np.random.default_rng(0).normal(size=(1500, 16)) + 3 * np.eye(16)[np.arange(1500) % 7],
)


def played(engine: str, count: int = 1500) -> Run:
    return replayed(RECORDED, VECTORS, engine, 0, count)


def test_a_good_engine_is_let_in_and_no_more_is_lost_than_allowed() -> None:
    run = played("good")
    assert run.offloaded_late > 0.9 and run.oracle == 1.0
    assert 0 < run.lost <= run.most_lost <= MAX_LOSS and run.saved > 0


def test_a_junk_engine_is_kept_out_and_costs_its_allowance_at_most() -> None:
    run = played("junk")
    assert run.offloaded == run.lost == 0 and run.first is None
    assert -200 <= run.least_saved < 0


@pytest.mark.timeout(300)
@pytest.mark.slow
async def test_a_stream_goes_through_a_served_gateway() -> None:
    run = await over_sockets(RECORDED, "junk", 0, 12, priced=False)
    assert (run.requests, run.offloaded, run.lost, run.violated) == (12, 0.0, 0.0, False)
