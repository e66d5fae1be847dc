"""Texts join outcomes only where all of them are known, and are read as they are when serving."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from learning.training.scorer.rows import rows_from_log
from router.embedding.model import locate
from router.learning.cross_encoder_texts import (
    UNKNOWN_QUALITY,
    PairReader,
    candidate_rows_from_log,
    padded,
    shown,
    text_rows_from_log,
)
from tests.learning.training.scorer.test_rows import choice, outcome, vectors_of

TEXTS = {1: ("one?", "1"), 2: ("two?", "2"), 3: ("three?", "3")}


def texts_of(ids: Sequence[int]) -> Mapping[int, tuple[str, str]]:
    return {id: TEXTS[id] for id in ids if id in TEXTS}


def questions_of(ids: Sequence[str]) -> Mapping[str, str]:
    return {id: f"what is {id}?" for id in ids if id != "unknown"}


def test_rows_are_those_of_the_scorer_with_the_texts_of_their_own_examples() -> None:
    log = [(choice(), [outcome((1, 2)), outcome((), 0.0, key="k2", id=2)])]
    found = text_rows_from_log(log, vectors_of, texts_of, questions_of)
    plain = rows_from_log(log, vectors_of)
    assert len(found) == len(plain) == 2
    by_examples = {len(one.examples): one for one in found}
    assert by_examples[2].examples == (shown("one?", "1"), shown("two?", "2"))
    assert by_examples[0].examples == ()
    for row in plain:
        assert np.array_equal(by_examples[len(row.scalars)].row.scalars, row.scalars)
        assert by_examples[len(row.scalars)].row.quality == row.quality
    assert {one.request for one in found} == {"what is r1?"}


def test_a_request_whose_question_the_bank_does_not_hold_is_left_out() -> None:
    log = [(choice("unknown"), [outcome((1,), request_id="unknown")])]
    assert text_rows_from_log(log, vectors_of, texts_of, questions_of) == []
    assert candidate_rows_from_log([choice("unknown")], vectors_of, texts_of, questions_of) == []


def test_an_outcome_with_an_example_that_is_gone_is_left_out() -> None:
    def without_two(ids: Sequence[int]) -> Mapping[int, tuple[str, str]]:
        return {id: texts for id, texts in texts_of(ids).items() if id != 2}

    log = [(choice(), [outcome((1, 2)), outcome((1,), key="k2", id=2)])]
    found = text_rows_from_log(log, vectors_of, without_two, questions_of)
    assert [one.examples for one in found] == [(shown("one?", "1"),)]


def test_of_several_outcomes_for_the_same_answer_the_last_counts() -> None:
    log = [(choice(), [outcome((1,), 0.9, id=2, at_s=9.0), outcome((1,), 0.1, id=1, at_s=1.0)])]
    found = text_rows_from_log(log, vectors_of, texts_of, questions_of)
    assert [one.row.quality for one in found] == [0.9]


def test_candidates_are_all_that_were_scored_and_are_still_there() -> None:
    (found,) = candidate_rows_from_log([choice()], vectors_of, texts_of, questions_of)
    assert found.examples == tuple(shown(*TEXTS[id]) for id in (1, 2, 3))
    assert len(found.row.scalars) == len(found.row.questions) == 3
    assert (found.row.quality, found.row.weight) == (UNKNOWN_QUALITY, 1.0)


def test_padding_is_marked_and_the_longer_text_is_cut() -> None:
    reader = PairReader(locate("package") / "tokenizer.json", 16)
    read = reader.read([("short?", ""), ("short?", "word " * 100)])
    feeds = padded(read)
    assert feeds["input_ids"].shape == (2, 16)
    assert feeds["attention_mask"].sum(1).tolist() == [len(read[0][0]), 16]
    # The request is whole: what was cut is the example.
    both = feeds["input_ids"][:, : len(read[0][0]) - 1]
    assert np.array_equal(both[0], both[1])
    assert feeds["token_type_ids"][1, -1] == 1
    assert feeds["token_type_ids"][0, len(read[0][0]) :].sum() == 0
