"""Who answers in place of another engine: by policy, by what is proven, by what the operator lists."""

from __future__ import annotations

from typing import Any

import pytest

from engines.prediction import Prediction
from router.plan import Action, Attempt
from router.stand_ins import ANYBODY, StandIns

THREE = ("small", "medium", "large")


def told(rule: StandIns, *attempts: str, proven: tuple[str, ...] = (), cap: float = 0.0) -> str:
    """The engines in their order; in brackets those that are asked in an outage only."""
    ways = rule.ways(
        [Attempt(name) for name in attempts], [Action(name, False) for name in proven], offload_cap=cap
    )
    return " ".join(f"({way.engine})" if only else way.engine for way, only in ways)


LARGE_FIRST = ("large", "medium", "small")


@pytest.mark.parametrize(
    ("proof", "listed", "proven", "cap", "stand_in"),
    [
        ("off", None, (), 0.0, "large medium small"),
        ("off", ("small",), (), 0.0, "large small"),
        ("off", ("small", "medium"), (), 0.0, "large small medium"),
        ("off", (), (), 0.0, "large"),
        ("on", None, (), 0.0, "large"),
        ("on", None, ("small",), 0.0, "large small"),
        ("on", ("small",), (), 0.0, "large (small)"),
        ("on", ("small", "medium"), (), 0.0, "large (small) (medium)"),
        ("on", ("small", "medium"), ("medium",), 0.0, "large medium (small)"),
        ("on", (), ("medium",), 0.0, "large medium"),
        ("floor", None, (), 0.2, "large (medium) (small)"),
        ("floor", None, (), 1.0, "large medium small"),
        ("floor", ("medium",), (), 0.2, "large (medium)"),
        ("floor", ("medium",), (), 1.0, "large medium"),
    ],
)
def test_who_stands_in_for_the_reference(
    proof: Any, listed: tuple[str, ...] | None, proven: tuple[str, ...], cap: float, stand_in: str
) -> None:
    assert told(StandIns(THREE, listed, proof), *LARGE_FIRST, proven=proven, cap=cap) == stand_in


@pytest.mark.parametrize("proof", ["off", "floor", "on"])
@pytest.mark.parametrize("listed", [None, (), ("small",)])
def test_larger_engines_always_stand_in_for_smaller_ones(proof: Any, listed: Any) -> None:
    assert told(StandIns(THREE, listed, proof), "small", "large", "medium") == "small large medium"


def test_anybody_stands_in_where_there_is_no_rule() -> None:
    assert told(ANYBODY, "b", "a") == "b a"


def test_an_engine_that_is_proven_without_examples_stands_in_without_them() -> None:
    helped: Any = ("an example",)
    ways = [Attempt("large"), Attempt("small", [{"role": "user", "content": "?"}], helped)]
    rule = StandIns(("small", "large"), None, "on")
    assert rule.ways(ways, [Action("small", False)]) == [(ways[0], False), (Attempt("small"), False)]
    assert rule.ways(ways, [Action("small", True)]) == [(one, False) for one in ways]


def test_who_is_asked_where_a_student_has_no_answer_stands_in_for_it() -> None:
    prediction: Any = Prediction.__new__(Prediction)
    ways = [Attempt("student", prediction=prediction), Attempt("large"), Attempt("small")]
    rule = StandIns(("small", "large"), None, "on")
    assert rule.ways(ways) == [(ways[0], False), (ways[1], False)]
