"""The applications of benchmarks/workflows: the baselines and the gateway answer alike, and the lists are at work."""

from __future__ import annotations

import pytest

from benchmarks.workflows.applications import applications
from benchmarks.workflows.baselines import SCHEMES
from benchmarks.workflows.constants import Calibration
from benchmarks.workflows.gateway_side import Way
from benchmarks.workflows.measuring import Ours, alone, at_rate

SMALL = Calibration(chunks=6, hits=4, contextual_document_tokens=1_200, contextual_chunk_tokens=400)


@pytest.mark.parametrize("name", sorted(applications(SMALL)))
def test_everybody_gives_the_same_answers(name: str) -> None:
    application = applications(SMALL)[name]
    wanted = alone(SMALL, application, SCHEMES[0], seed=1, count=2).answers
    ways = (*SCHEMES, Ours(), Ours(frozenset()), Ours(way=Way(by_depth=False, batch=4)))
    for who in ways:
        took = at_rate(SMALL, application, who, 0.5, seed=1, count=2)
        assert took.answers == wanted
        assert all(seconds > 0 for seconds in took.seconds)
