"""Features: named, finite, about 0 to 1, and quick on any text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.choosing import features
from router.choosing.features import Examples, Request, context_features, spread, text_features


@given(st.text(max_size=6000))
def test_any_text_gives_the_same_names_and_numbers_in_range(text: str) -> None:
    found = text_features(text)
    assert all(math.isfinite(v) and 0.0 <= v <= 1.5 for v in found.values())


@pytest.mark.parametrize(
    ("text", "cue"),
    [
        ("Fix this:\n```python\ndef f(x):\n    return x\n```", "code"),
        ("What is 12 + 30?", "maths"),
        ("Which?\nA. red\nB. green\nC. blue", "multiple_choice"),
    ],
)
def test_the_shape_of_a_task_is_noticed(text: str, cue: str) -> None:
    assert text_features(text)[cue] == 1.0


def test_small_talk_has_no_shape() -> None:
    found = text_features("good morning")
    cues = ("code", "maths", "multiple_choice")
    assert not any(found[cue] for cue in cues)


def test_other_scripts_are_told_from_latin() -> None:
    assert text_features("Guten Morgen")["latin"] == 1.0
    assert text_features("доброе утро")["latin"] == 0.0


def test_a_broken_number_becomes_zero_and_nothing_else_changes() -> None:
    def made(quality: float) -> dict[str, float]:
        return context_features(
            Request("hello"),
            Examples(),
            quality_alone=quality,
            quality_with=0.5,
            weights=(1.0, 0.0, 0.0),
        )

    assert made(float("nan")) == made(0.0)


def test_names_left_out_elsewhere_exist_here() -> None:
    known = set(
        context_features(Request(""), Examples(), quality_alone=0, quality_with=0, weights=(1, 0, 0))
    ) | set(
        features.action_features(
            is_reference=True,
            rank=1,
            with_examples=False,
            relative_cost=1,
            relative_latency=1,
            utilisation=0,
            healthy=True,
        )
    )
    older = {"familiarity"}
    assert known >= (features.NOT_FOR_QUALITY - older)
    assert spread([]) == spread([0.4]) == 0.0
    assert spread([0.9, 0.4]) == pytest.approx(0.5)
