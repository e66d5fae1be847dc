"""What the caps on examples are learnt from: served answers of engines that get examples, with the caps' probabilities."""

from __future__ import annotations

from typing import Any

import pytest

from learning.training.count_rows import observed_from_log
from router.examples.count import Observed, learnt
from store.records import ChoiceRecord, OutcomeRecord
from tests.store.rows import choice_record, outcome_record


def choice(**changes: Any) -> ChoiceRecord:
    return choice_record(1, **({"examples_explored": "", "examples_probability": 0.9} | changes))


def outcome(**changes: Any) -> OutcomeRecord:
    return outcome_record(1, **changes)


def test_a_served_answer_becomes_a_row_with_all_its_probabilities() -> None:
    rows = observed_from_log([(choice(), [outcome(quality=0.7, probability=0.5, prompt_tokens=300)])])
    assert rows == [Observed("small", 5, 0.7, 0.4, 300, pytest.approx(0.45), 1001.0)]  # type: ignore[arg-type]
    assert learnt(rows, now_s=1001.0).ladder


@pytest.mark.parametrize(
    "changes",
    [
        {"examples_explored": "drop"},
        {"examples_explored": "swap"},
        {"engine": "large"},
        {"most_examples": 4},
        {"most_examples": -1},
        {"actions": ()},
        {"examples_probability": 0.0},
    ],
)
def test_what_no_cap_leads_to_is_left_out(changes: dict[str, Any]) -> None:
    wanted = outcome(engine=changes.get("engine", "small"))
    assert observed_from_log([(choice(**changes), [wanted])]) == []


def test_an_explored_cap_and_a_request_sent_without_examples_count() -> None:
    explored = choice(examples_explored="count", most_examples=8, examples_probability=0.025)
    bare = choice(example_ids=(), most_examples=0, chosen=0)
    rows = observed_from_log([(explored, [outcome()]), (bare, [outcome(example_ids=())])])
    assert [(row.most, row.probability) for row in rows] == [(8, 0.0125), (0, 0.45)]


def test_only_the_answer_that_was_served_counts_and_of_it_the_last_word() -> None:
    outcomes = [
        outcome(quality=0.2, at_s=10.0, id=1),
        outcome(quality=0.9, at_s=20.0, id=3, key="judge"),
        outcome(quality=0.8, at_s=20.0, id=2, key="other"),
        outcome(quality=0.0, at_s=30.0, id=4, served=False, key="shadow"),
        outcome(quality=0.1, at_s=40.0, id=5, engine="large", key="stand-in"),
    ]
    (row,) = observed_from_log([(choice(), outcomes)])
    assert row.quality == 0.9
    assert observed_from_log([(choice(), outcomes[3:])]) == []
    assert observed_from_log([(choice(), [])]) == []
