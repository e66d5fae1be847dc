from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engines.chat import ChatRequest
from gateway.answer import Answer, Kept
from gateway.controls import Controls
from gateway.journey import Journey
from gateway.keepers.regenerated import QUALITY, RegeneratedKeeper
from router.plan import Attempt
from store.decisions.outcomes import Outcomes
from store.sqlite.database import Database

AGAIN = Controls(no_cache=True)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Asking:
    def __init__(self, db: Database) -> None:
        self.outcomes = Outcomes(db)
        self.clock = Clock()
        self.keeper = RegeneratedKeeper(self.outcomes, within_s=60.0, timer=self.clock)
        self.asked = 0

    def ask(self, question: str = "Q?", controls: Controls | None = None, **changes: Any) -> list[str]:
        """Ask once more; gives the requests of which something was noted."""
        self.asked += 1
        fields = changes.pop("fields", {})
        messages = [{"role": "user", "content": question}]
        chat = ChatRequest(b"", fields, "m", messages, stream=False, include_usage=False)
        answer = Answer(
            chat, controls or Controls(), None, Kept(10), "/chat/completions", attempt=Attempt("small")
        )
        answer.complete = changes.pop("complete", True)
        journey = Journey(f"req-{self.asked}", 0.0, 1000.0, "POST", "/chat/completions", "a1", "key_1", "m")
        journey.example_ids = (self.asked,)
        for name, value in changes.items():
            setattr(journey, name, value)
        noted = [
            kept.result(30)
            for _, kept in self.keeper.keep(journey, answer, None)
            if not isinstance(kept, str)
        ]
        return [outcome.request_id for outcome in noted]


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Asking]:
    db = Database.open(tmp_path / "understudy.db")
    yield Asking(db)
    db.close()


def test_an_answer_asked_for_anew_was_a_little_less_than_unknown(asking: Asking) -> None:
    assert asking.ask() == []
    assert asking.ask(controls=AGAIN) == ["req-1"]
    (outcome,) = asking.outcomes.of("a1", "req-1")
    assert (outcome.source, outcome.engine, outcome.example_ids) == ("implicit", "small", (1,))
    assert outcome.quality == QUALITY < 0.5 and outcome.served
    assert asking.ask(controls=AGAIN) == ["req-2"], "the second answer was not liked either"


def test_another_seed_means_it_too(asking: Asking) -> None:
    asking.ask(fields={"seed": 1})
    assert asking.ask(fields={"seed": 1}) == []
    assert asking.ask(fields={"seed": 2}) == ["req-2"]


@pytest.mark.parametrize(
    "second",
    [
        {},
        {"question": "R?", "controls": AGAIN},
        {"tenant": "b2", "controls": AGAIN},
        {"key_id": "key_2", "controls": AGAIN},
        {"model": "m2", "controls": AGAIN},
        {"fields": {"user": "ben"}, "controls": AGAIN},
        {"complete": False, "controls": AGAIN},
        {"controls": Controls(no_cache=True, no_store=True)},
    ],
)
def test_nothing_else_says_anything_of_an_answer(asking: Asking, second: dict[str, Any]) -> None:
    asking.ask()
    assert asking.ask(**second) == []


def test_who_comes_back_later_is_not_regenerating(asking: Asking) -> None:
    asking.ask()
    asking.clock.now_s = 61.0
    assert asking.ask(controls=AGAIN) == []
