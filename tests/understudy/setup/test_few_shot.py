"""A turned dial reaches the rule and what it looks things up in; what is not turned is as configured."""

from __future__ import annotations

from typing import Any

import pytest

from router.dials import Dials
from router.embedding.retriever import Retriever
from router.policies.few_shot import FewShot
from tests.knobs import few_shot_knobs
from understudy.setup.few_shot import FewShotParts, enough


@pytest.fixture
def parts() -> tuple[FewShotParts, Any, Any]:
    policy, retriever = object.__new__(FewShot), object.__new__(Retriever)
    knobs = few_shot_knobs(theta=0.8, m=3, max_examples=5)
    return FewShotParts(policy, retriever, knobs, proves=False), policy, retriever


def test_a_lower_theta_is_looked_down_to(parts: tuple[FewShotParts, Any, Any]) -> None:
    made, policy, retriever = parts
    made.turn(Dials(theta=0.6, m=9), {})
    assert (policy.knobs.theta, policy.knobs.m, policy.knobs.max_examples) == (0.6, 9, 5)
    assert (retriever._floor, retriever._enough) == (0.6, enough(policy.knobs)) == (0.6, 18)
    made.turn(Dials(preference=0.2), {})
    assert policy.knobs == made.configured and retriever._floor == 0.8
