"""Items of a list are told while the model still writes it."""

from __future__ import annotations

from workflows.definition import Splits
from workflows.graph import Step
from workflows.running.splitting import Splitting, splits_of


def test_each_item_is_told_once_its_end_is_seen() -> None:
    told: list[tuple[int, str]] = []
    splitting = Splitting(Splits("json"), lambda index, text: told.append((index, text)), 10)
    seen = []
    for piece in ('Here: ["a', '", "b"', ', "c', '"]'):
        splitting.feed(piece)
        seen.append(len(told))
    assert told == [(0, "a"), (1, "b"), (2, "c")]
    assert seen == [0, 1, 2, 3], "a text ends with what comes after it"


def test_a_step_says_how_its_answer_becomes_a_list() -> None:
    step = Step("s", "s", {}, {}, {}, {}, ())
    assert splits_of(step) is None
    split = Step("s", "s", {}, {}, {}, {}, (), what={"splits": {"how": "regex", "pattern": "a"}})
    assert splits_of(split) == Splits("regex", "a")
