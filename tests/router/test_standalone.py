"""Which later turns of a conversation are taken to stand for themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from router.embedding.embedder import EmbedderLate
from router.examples.rarity import Rarity
from router.standalone import LEAST, Standalone, features, probability
from store.records import Vector

RARITY = Rarity(
    ["the", "what", "is", "it", "about", "how", "does", "work", *(f"word{n}" for n in range(5000))]
)


def found(asked: str, before: str = "What is throat cancer?", like: float = 0.6) -> dict[str, float]:
    return features(asked, before, RARITY, like, like)


def test_what_points_at_what_was_said_does_not_stand_for_itself() -> None:
    alone = probability(found("How does photosynthesis work in cyanobacteria?"))
    assert alone >= LEAST
    for asked in ("How does it work in cyanobacteria?", "Now explain the same again", "Continue"):
        assert probability(found(asked)) < min(LEAST, alone)
    assert probability(found("How does the cancer spread?")) < alone


def test_nothing_said_is_no_question_of_its_own() -> None:
    assert probability(found("", like=0.0)) < LEAST


class Given:
    """The same vector for every text, or none in time."""

    def __init__(self, late: bool = False) -> None:
        self.late = late
        self.texts: list[str] = []

    async def embed(self, text: str) -> Vector:
        if self.late:
            raise EmbedderLate("late")
        return self.embed_blocking(text)

    def embed_blocking(self, text: str) -> Vector:
        self.texts.append(text)
        return np.array([1.0, 0.0], np.float32)


def talk(*turns: str) -> list[dict[str, Any]]:
    return [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(turns)]


ALONE = "How does photosynthesis work in cyanobacteria?"


@pytest.mark.parametrize(
    ("messages", "passes"),
    [
        (talk("Hello", "Hi.", ALONE), True),
        (talk("One?", "1.", "Two?", "2.", ALONE), True),
        (talk("Hello", "Hi.", "What about it?"), False),
        (talk(ALONE), False),
        ([], False),
    ],
)
async def test_only_later_turns_are_told(messages: list[dict[str, Any]], passes: bool) -> None:
    made = Standalone(Given(), RARITY)  # type: ignore[arg-type]
    assert await made.tells(messages) == made.tells_blocking(messages) == passes


async def test_what_is_not_known_in_time_does_not_pass() -> None:
    assert not await Standalone(Given(late=True), RARITY).tells(talk("Hello", "Hi.", ALONE))  # type: ignore[arg-type]
