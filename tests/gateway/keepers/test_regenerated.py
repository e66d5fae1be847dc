from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.keepers.regenerated import QUALITY, RegeneratedKeeper
from router.asked import Controls
from router.finished import Outcome
from router.plan import Attempt
from store.decisions.outcomes import Outcomes
from store.sqlite.database import Database
from tests.finished import chat_request, finished
from tests.gateway.keepers.test_choice import candidate

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
        chat = chat_request(question, **changes.pop("fields", {}))
        chat = replace(chat, model=changes.pop("model", "m"))
        what = finished(
            chat,
            controls,
            id=f"req-{self.asked}",
            attempt=Attempt("small", [], (candidate(self.asked),)),
            **({"key_id": "key_1"} | changes),
        )
        noted = [kept.result(30) for _, kept in self.keeper.keep(what) if not isinstance(kept, str)]
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
        {"outcome": Outcome.ABORTED, "controls": AGAIN},
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
