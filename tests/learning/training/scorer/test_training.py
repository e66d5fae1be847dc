"""A scorer is trained from outcomes and lessons, and accepted only where its choices are worth more."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from learning.learned.learner import Trained
from learning.training.scorer.training import TooFewOutcomes, choose, trained
from router.examples.prior import prior_model
from router.examples.scorer import ScorerModel
from router.examples.set_quality import SetQuality
from tests.learning.training.scorer.scorer_world import CANDIDATES, lessons, outcomes


def chosen_by(made: Trained, folder: Path, rows: list) -> list[list[int]]:  # type: ignore[type-arg]
    (folder / "m.onnx").write_bytes(made.data)
    model = ScorerModel(folder / "m.onnx")
    try:
        return [choose(model.worths, dict(model.declared.qualities), row) for row in rows]
    finally:
        model.close()


def right_share(rows: list, chosen: list[list[int]]) -> float:  # type: ignore[type-arg]
    told = [
        row.answers[place] == "right" for row, places in zip(rows, chosen, strict=True) for place in places
    ]
    return float(np.mean(told))


def test_what_helps_is_learnt_from_lessons_and_outcomes_and_accepted(tmp_path: Path) -> None:
    made = trained(outcomes(600), prior_model(), lessons=lessons(800), embedding_version="mini@1")
    assert made.accepted, made.reason
    later = outcomes(100, seed=9)
    chosen = chosen_by(made, tmp_path, later)
    assert right_share(later, chosen) > 0.8
    assert 0 < np.mean([len(places) for places in chosen]) < 3, "one right example is enough here"
    assert made.metrics["ranking"] != "nearest" and made.metrics["lessons"] == 800
    worth, compared = made.metrics["held_out"], made.metrics["comparison"]
    assert compared["outcomes"] == made.metrics["outcomes"]["held_out"]
    assert compared["after"]["mean"] == pytest.approx(worth["new"], abs=0.02)
    assert worth["new"] > worth["nearest"] and worth["new"] > worth["none"] and worth["new"] > worth["in use"]


def test_where_several_vote_more_are_sent(tmp_path: Path) -> None:
    one = trained(outcomes(800), prior_model(), lessons=lessons(800))
    votes = trained(outcomes(800, votes=True), prior_model(), lessons=lessons(800))
    later = outcomes(100, seed=9)
    sent = [np.mean([len(places) for places in chosen_by(made, tmp_path, later)]) for made in (one, votes)]
    assert sent[1] > sent[0] + 0.5


def test_without_lessons_outcomes_alone_make_a_scorer_that_is_no_worse_than_the_nearest_where_accepted() -> (
    None
):
    made = trained(outcomes(600), prior_model())
    worth = made.metrics["held_out"]
    assert made.metrics["lessons"] == 0 and set(made.metrics["validation"]) == {"nearest", "outcomes"}
    better = worth["new"] >= max(worth["nearest"], worth["none"]) and worth["new"] > worth["in use"]
    assert made.accepted == better


def test_where_nothing_is_relevant_nothing_is_sent(tmp_path: Path) -> None:
    made = trained(outcomes(800, relevant=0.0), prior_model(), lessons=lessons(800))
    assert made.accepted, made.reason
    assert sum(map(len, chosen_by(made, tmp_path, outcomes(100, seed=9, relevant=0.0)))) < 10


def test_what_the_same_outcomes_teach_is_the_same_and_no_better_than_itself() -> None:
    first = trained(outcomes(600), prior_model(), lessons=lessons(800))
    again = trained(outcomes(600), first.data, lessons=lessons(800))
    assert again.metrics["validation"] == pytest.approx(first.metrics["validation"], abs=1e-3)
    assert not again.accepted and "not worth more" in again.reason


def test_choices_that_are_worth_less_than_the_nearest_are_rejected() -> None:
    """Lessons that say the opposite of what the outcomes say."""
    taught = lessons(800)
    wrong = replace(taught, overlap=1.0 - taught.overlap)
    flipped = [replace(row, features=row.features.copy()) for row in outcomes(600)]
    made = trained(flipped, prior_model(), lessons=wrong)
    assert not made.accepted or made.metrics["held_out"]["new"] > made.metrics["held_out"]["nearest"]


def test_an_incumbent_that_cannot_be_asked_is_compared_as_the_prior() -> None:
    told: list[str] = []
    made = trained(outcomes(600), b"nonsense", lessons=lessons(800), tell=told.append)
    assert made.accepted and any("compared with the prior instead" in line for line in told)


@pytest.mark.parametrize("rows", [outcomes(150), [replace(row, sent=()) for row in outcomes(400)]])
def test_too_few_outcomes_teach_nothing(rows: list) -> None:  # type: ignore[type-arg]
    with pytest.raises(TooFewOutcomes, match="are needed"):
        trained(rows, prior_model(), lessons=lessons(100))


def test_outcomes_of_one_request_are_on_one_side_of_the_split() -> None:
    rows = [replace(row, request_id="same", at_s=1.0) for row in outcomes(400)]
    with pytest.raises(TooFewOutcomes, match="so few requests"):
        trained(rows, prior_model())


def test_a_row_is_chosen_for_by_its_scope() -> None:
    row = replace(outcomes(1)[0], scope="s")
    keen = SetQuality(0.0, 1.0, 0.0, 0.0, 0.0)
    shy = SetQuality(0.5, 0.0, 0.0, 1.0, 1.0)
    worths = partial(np.full, fill_value=0.5)
    chosen = [
        choose(lambda f: worths(len(f)).tolist(), {"": a, "s": b}, row) for a, b in ((shy, keen), (keen, shy))
    ]
    assert chosen[0] and not chosen[1] and max(chosen[0]) < CANDIDATES
