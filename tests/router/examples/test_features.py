"""Named scalars of a request and an example: the same whoever computes them, and whatever is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from router.examples.features import NAMES, PLACE, VERSION, Features, RequestView, names_met, vector_rows
from router.examples.lexical_things import about_other_things, things
from router.examples.rarity import Rarity
from router.plan import Candidate
from tests.router.examples.scoring import candidates, example, rarity, request, unit

NOW_S = 1000.0 + 86400.0


@pytest.fixture(scope="module")
def words() -> Rarity:
    return rarity()


@pytest.fixture
def features(words: Rarity) -> Features:
    return Features(words)


def value(features: Features, name: str, candidate: Candidate, asked: RequestView | None = None) -> float:
    return float(features.rows(asked or request(), [candidate], NOW_S)[0, PLACE[name]])


def asked_of(features: Features, text: str, question: str, name: str) -> float:
    return value(features, name, Candidate(example(question=question), 0.5), request(text))


def test_one_finite_row_per_candidate_and_one_column_per_name(features: Features) -> None:
    rows = features.rows(request(), candidates(), NOW_S)
    assert rows.dtype == np.float32
    assert rows.shape == (4, len(NAMES))
    assert np.isfinite(rows).all()
    assert len(set(NAMES)) == len(NAMES)
    assert VERSION


def test_no_candidates_are_no_rows(features: Features) -> None:
    assert features.rows(request(), [], NOW_S).shape == (0, len(NAMES))


def test_what_is_kept_of_examples_never_changes_a_row(words: Rarity) -> None:
    kept, fresh = Features(words, cache_entries=100), Features(words, cache_entries=0)
    tiny = Features(words, cache_entries=1)
    for _ in range(3):
        for text in ("population of Eastwick?", "QX-410 launch"):
            expected = fresh.rows(request(text), candidates(), NOW_S)
            assert np.array_equal(kept.rows(request(text), candidates(), NOW_S), expected)
            assert np.array_equal(tiny.rows(request(text), candidates(), NOW_S), expected)


def test_an_example_whose_text_was_replaced_is_read_again(features: Features) -> None:
    before = Candidate(example(question="population of Eastwick"), 0.9)
    features.rows(request(), [before], NOW_S)
    after = replace(before, example=replace(before.example, question="population of Northwick"))
    assert value(features, "request_rare_covered", after) < value(features, "request_rare_covered", before)
    answered = replace(before, example=replace(before.example, answer="Eastwick has 5,000."))
    assert value(features, "request_in_answer", answered) > value(features, "request_in_answer", before)


def test_names_that_are_shared_or_missing_are_seen_from_both_sides(features: Features) -> None:
    same = "population of eastwick please"
    other = "population of Westwick"
    assert asked_of(features, "What is the population of Eastwick?", same, "request_rare_covered") == 1.0
    assert asked_of(features, "What is the population of Eastwick?", other, "request_rare_covered") < 0.7
    assert asked_of(features, "population?", other, "example_rare_covered") < 0.7
    assert asked_of(features, "population of Eastwick", "population?", "example_rare_covered") == 1.0


@pytest.mark.parametrize("apostrophe", ["'", "\u2019"])
def test_a_name_with_a_possessive_s_is_that_name(features: Features, apostrophe: str) -> None:
    asked = f"What's Eastwick{apostrophe}s population?"
    assert asked_of(features, asked, "population of Eastwick", "request_rare_covered") == 1.0
    assert asked_of(features, asked, "population of Eastwick", "names_disagree") == 0.0
    assert asked_of(features, asked, "population of Northwick", "request_rare_covered") < 1.0


@pytest.mark.parametrize(
    ("text", "questions", "met"),
    [
        ("population of Quoustland?", ["capital of Quoustland", "population of Brimeth"], True),
        ("population of Quoustland?", ["capital of Quoutsland"], True),
        ("population of Quoustland?", ["population of Brimeth", "weight of the QX-410"], False),
        ("and what is that?", ["population of Brimeth"], True),
    ],
)
def test_what_the_request_names_is_met_where_any_candidate_says_it(
    features: Features, text: str, questions: list[str], met: bool
) -> None:
    near = [Candidate(example(i, question=question), 0.5) for i, question in enumerate(questions)]
    assert names_met(features.rows(request(text), near, NOW_S)) is met


def test_identifiers_count_as_one_word_beside_their_parts(features: Features) -> None:
    near = asked_of(features, "weight of the QX-410", "weight of the qx-410", "rarest_of_request_only")
    far = asked_of(features, "form for 258-CS", "form for 258-C", "rarest_of_request_only")
    assert near == 0.0 < far


def test_numbers_equal_conflicting_and_on_one_side_are_told_apart(features: Features) -> None:
    names = ("numbers_equal", "numbers_conflict", "numbers_one_sided")
    for other, expected in (("in 1999", (1, 0, 0)), ("in 2001", (0, 1, 0)), ("then", (0, 0, 1))):
        assert tuple(asked_of(features, "sales in 1999", "sales " + other, n) for n in names) == expected


@pytest.mark.parametrize(
    "a", ["Ask Elsa Morwen", "in 1999", "run `x --all`", "what is it", "the QX-410", "ask elsa"]
)
@pytest.mark.parametrize(
    "b", ["Ask Ilsa Morwen", "in 2001", "run x", "What is it?", "the QX-470", "Ask Elsa now"]
)
def test_other_things_are_what_the_lexical_gates_call_so(features: Features, a: str, b: str) -> None:
    assert asked_of(features, a, b, "other_things") == about_other_things(things(a), things(b))


def test_a_follow_ups_own_turn_is_compared_by_itself(features: Features) -> None:
    text = "And of Westwick?\n(Earlier: population of Eastwick / It is 5.)"
    assert asked_of(features, text, "population of Westwick", "turn_covered") == 1.0
    assert asked_of(features, text, "population of Eastwick", "turn_covered") < 0.5
    assert asked_of(features, text, "population of Eastwick", "request_rare_covered") > 0.0


@pytest.mark.parametrize(
    ("text", "question", "covered", "covers"),
    [
        ("weight of the QX-410", "how heavy is the qx-410", 1.0, 1.0),
        ("weight of the QX-410", "how heavy is the qx-470", 1 / 3, 1 / 3),
        ("population of Quoustland", "population of Quoustland, as of 1999", 1.0, 0.5),
        ("population of Quoustland", "population of Quoustlend", 0.0, 0.0),
        ("what is the weight", "weight of the QX-410", 1.0, 0.0),
    ],
)
def test_names_and_identifiers_are_compared_by_themselves_and_exactly(
    features: Features, text: str, question: str, covered: float, covers: float
) -> None:
    assert asked_of(features, text, question, "telling_covered") == pytest.approx(covered)
    assert asked_of(features, text, question, "telling_covers") == pytest.approx(covers)


def test_a_name_that_another_candidate_says_is_lost_for_the_rest(features: Features) -> None:
    near = [
        Candidate(example(1, question="capital of Quoustland"), 0.9),
        Candidate(example(2, question="capital of Quoustlend"), 0.8),
    ]
    lost = features.rows(request("population of Quoustland"), near, NOW_S)[:, PLACE["telling_lost"]]
    assert lost.tolist() == [0.0, 1.0]


def test_what_the_last_turn_names_is_asked_about_and_else_what_was_named_before(features: Features) -> None:
    earlier = "\n(Earlier: population of Brimeth / It is 5.)"
    assert (
        asked_of(features, "And of Quoustland?" + earlier, "population of Quoustland", "telling_covered")
        == 1.0
    )
    assert (
        asked_of(features, "And of Quoustland?" + earlier, "population of Brimeth", "telling_covered") == 0.0
    )
    assert asked_of(features, "And the capital?" + earlier, "population of Brimeth", "telling_covered") == 1.0


def test_what_was_answered_before_names_nothing(features: Features) -> None:
    text = "And its author?\n(Earlier: shelf mark of our glass signals / It is SIG-15-O.)"
    assert asked_of(features, text, "author of our glass signals", "telling_covered") == 1.0
    assert asked_of(features, text, "author of our glass signals", "unlisted_none") == 1.0


@pytest.mark.parametrize(
    ("text", "spelled", "again"),
    [
        ("username of Hugo Flux", True, True),
        ("username of Mina Kais", True, False),
        ("what is the capital of Quoustland", True, False),
    ],
)
def test_a_code_is_looked_for_in_the_request_as_well(
    features: Features, text: str, spelled: bool, again: bool
) -> None:
    given = Candidate(example(question="What does Hugo Flux log in as?", answer="It is hflux9."), 0.5)
    assert (value(features, "answer_spelled", given, request(text)) > 0.0) is spelled
    assert (value(features, "spelled_again", given, request(text)) > 0.0) is again


def test_what_is_no_code_is_spelled_from_nothing(features: Features) -> None:
    given = Candidate(example(question="Who is Hugo Flux?", answer="Hugo Flux is a painter."), 0.5)
    assert value(features, "spelled_again", given, request("Who is Hugo Flux?")) == 0.0


def test_a_request_for_two_things_is_seen_beside_an_example_of_one(features: Features) -> None:
    both, one = "What are the weight and the price of the QX-410?", "price of the QX-410"
    assert asked_of(features, both, one, "joins_more") == 1.0
    assert asked_of(features, both, both, "joins_more") == asked_of(features, one, both, "joins_more") == 0.0


def test_an_unknown_answer_vector_is_flagged_and_not_taken_for_dissimilar(features: Features) -> None:
    known = Candidate(example(), 0.9, unit(2), unit(1))
    assert value(features, "answer_known", known) == 1.0
    assert value(features, "answer_similarity", known) == pytest.approx(1.0)
    unknown = replace(known, answer_vector=None)
    assert value(features, "answer_known", unknown) == value(features, "answer_similarity", unknown) == 0.0


def test_what_is_known_of_an_example_comes_through(features: Features) -> None:
    plain = Candidate(example(), 0.9)
    judged = replace(
        plain,
        example=example(
            quality_sum=1.6,
            quality_count=2,
            uses=3,
            gain=1.0,
            gain_at_s=NOW_S,
            kind="demonstration",
            flagged=True,
        ),
    )
    assert value(features, "quality", plain) == 0.5
    assert value(features, "quality", judged) == pytest.approx(0.8)
    assert value(features, "gain", judged) == pytest.approx(0.5)
    for name in ("quality_known", "uses", "gain", "demonstration", "flagged"):
        assert value(features, name, judged) > value(features, name, plain)
    assert value(features, "from_reference", plain) == 1.0
    assert value(features, "from_reference", replace(plain, example=example(source_engine="small"))) == 0.0
    assert value(features, "relative_price", plain) == pytest.approx(0.1)
    assert value(features, "age", plain) == pytest.approx(np.log(2))


def test_rank_and_margins_are_against_the_other_candidates(features: Features) -> None:
    rows = features.rows(request(), candidates(), NOW_S)
    assert rows[:, PLACE["rank"]] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4])
    assert rows[:, PLACE["margin"]] == pytest.approx([0, 0.1, 0.2, 0.3], abs=1e-6)
    assert rows[:, PLACE["overlap_lost"]].min() == 0.0


def test_a_broken_vector_gives_no_nan(features: Features) -> None:
    broken = Candidate(example(), float("nan"), None, np.full(8, np.nan, np.float32))
    assert np.isfinite(features.rows(request(), [broken], NOW_S)).all()


def test_empty_texts_and_texts_of_any_script_can_be_read(features: Features) -> None:
    for text in ("", "   ", "人口は？", "x" * 10_000, "\ud800"):
        assert np.isfinite(
            features.rows(request(text), [Candidate(example(question=text, answer=text), 0.1)], NOW_S)
        ).all()


def test_answers_that_somebody_has_as_rows_already_change_nothing(features: Features) -> None:
    asked, near = request(), candidates()
    answers = vector_rows([c.answer_vector for c in near], len(asked.vector))
    assert np.array_equal(features.rows(asked, near, NOW_S, answers), features.rows(asked, near, NOW_S))


def test_an_unknown_vector_is_a_row_of_zeros_and_one_of_another_size_is_refused() -> None:
    rows = vector_rows([None, unit(1)], len(unit(1)))
    assert not rows[0].any()
    assert np.array_equal(rows[1], unit(1))
    with pytest.raises(ValueError, match="reshape"):
        vector_rows([unit(1, dimensions=5)], 8)
