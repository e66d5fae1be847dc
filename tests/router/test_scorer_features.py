"""Named scalars of a request and an example: the same whoever computes them, and whatever is kept."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.lexical_things import about_other_things, things
from router.plan import Candidate
from router.rarity import Rarity
from router.scorer_features import NAMES, PLACE, VERSION, Features, RequestView, names_met, vector_rows
from router.scorer_reading import Text, read
from tests.router.scoring import candidates, example, rarity, request, unit

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


@functools.cache
def rarity_once() -> Rarity:
    return rarity()


SAID = st.lists(
    st.sampled_from(
        [
            *(
                "What",
                "is",
                "the",
                "population",
                "of",
                "Eastwick",
                "Westwick",
                "in",
                "1999",
                "QX-410",
                "b",
                "I",
            ),
            *("O'Brien", "weight", "weights", "`ls --all`", "why", "two", "not", "人口", "Zürich", "launch?"),
            "\n(Earlier: population of Meomild / It is 5.)",
        ]
    ),
    max_size=12,
).map(" ".join)


def slipped(words: Rarity, texts: list[str]) -> dict[str, str]:
    """What is read in place of what: words that only one of the texts says."""
    said = [read(text, words).slips for text in texts]
    return {
        word: meant
        for slips in said
        for word, meant in slips.items()
        if sum(word in other for other in said) == 1
    }


def by_definition(
    words: Rarity, text: str, question: str, answer: str, meant: Mapping[str, str]
) -> dict[str, float]:
    """What the names of the compared scalars say, for one pair, set by set; `meant` read in place of slips."""

    def mended(said: str) -> Text:
        return read(said, words, {w: m for w, m in meant.items() if w in read(said, words).slips})

    asked, other = mended(text), mended(question)

    def share(some: Mapping[str, float], of: frozenset[str], nothing: float = 1.0) -> float:
        total = sum(some.values())
        return sum(weight for word, weight in some.items() if word in of) / total if total else nothing

    def saturated(weights: Iterable[float]) -> float:
        total = sum(weights)
        return total / (1 + total)

    mine_only = [excess for word, excess in asked.rare.items() if word not in other.words]
    theirs_only = [excess for word, excess in other.rare.items() if word not in asked.words]

    common = {word: weight for word, weight in asked.weights.items() if word not in asked.rare}
    their_common = {word: weight for word, weight in other.weights.items() if word not in other.rare}
    numbers = (asked.numbers, other.numbers)
    lost = [not asked.names <= other.every_word, not other.names <= asked.every_word]
    scalars = {
        "request_covered": share(asked.weights, other.words, 0.0),
        "example_covered": share(other.weights, asked.words, 0.0),
        "request_rare_covered": share(asked.rare, other.words),
        "example_rare_covered": share(other.rare, asked.words),
        "turn_covered": share(asked.turn, other.turn_words),
        "turn_covers": share(other.turn, asked.words),
        "common_covered": share(common, other.words),
        "common_covers": share(their_common, asked.words),
        "rare_shared": saturated(excess for word, excess in asked.rare.items() if word in other.words),
        "rare_of_request_only": saturated(mine_only),
        "rare_of_example_only": saturated(theirs_only),
        "rarest_of_request_only": max(mine_only, default=0.0),
        "rarest_of_example_only": max(theirs_only, default=0.0),
        "numbers_equal": numbers[0] == numbers[1] != (),
        "numbers_conflict": numbers[0] != numbers[1] and () not in numbers,
        "numbers_one_sided": numbers.count(()) == 1,
        "other_things": any(lost) or numbers[0] != numbers[1] or asked.machine != other.machine,
        "names_disagree": all(lost),
        "asks_alike": asked.asks == other.asks,
        "request_in_answer": share(asked.rare, frozenset(things(answer).words), 0.0),
        "slips": saturated([len(asked.meant) + len(other.meant)]),
    }
    return {name: float(value) for name, value in scalars.items()}


def test_a_slip_of_the_finger_is_read_as_the_word_that_was_meant() -> None:
    slipped, right = (
        "Which platvorm does the Qorbax leave from?",
        "Which platform does the Qorbax leave from?",
    )
    rows = Features(rarity_once()).rows(request(slipped), [Candidate(example(1, question=right), 0.9)], NOW_S)
    found = {
        name: float(rows[0, PLACE[name]]) for name in ("request_covered", "unlisted_covered", "slips_met")
    }
    assert found == {"request_covered": 1.0, "unlisted_covered": 1.0, "slips_met": 1.0}
    assert rows[0, PLACE["slips"]] == 0.5


def test_what_more_than_one_text_says_is_a_name_and_no_slip() -> None:
    near = [
        Candidate(example(i, question=question), 0.9)
        for i, question in enumerate(["Where do the Gardan Rovers play?", "coach of the Garden Rovers?"])
    ]
    rows = Features(rarity_once()).rows(request("Who coaches the Gardan Rovers?"), near, NOW_S)
    assert rows[:, PLACE["slips"]].tolist() == [0.0, 0.0]
    assert rows[0, PLACE["unlisted_covered"]] == 1.0 > rows[1, PLACE["unlisted_covered"]]


@settings(max_examples=60, deadline=None)
@given(text=SAID, texts=st.lists(st.tuples(SAID, SAID), min_size=1, max_size=6))
def test_candidates_compared_side_by_side_are_what_each_is_by_definition(
    text: str, texts: list[tuple[str, str]]
) -> None:
    words = rarity_once()
    near = [
        Candidate(example(i, question=question, answer=answer), 0.5)
        for i, (question, answer) in enumerate(texts)
    ]
    rows = Features(words).rows(request(text), near, NOW_S)
    meant = slipped(words, [text, *[question for question, _ in texts]])
    expected = [by_definition(words, text, question, answer, meant) for question, answer in texts]
    for row, scalars in zip(rows, expected, strict=True):
        assert {name: float(row[PLACE[name]]) for name in scalars} == pytest.approx(scalars, abs=1e-6)
    overlap = [e["request_rare_covered"] * e["example_rare_covered"] for e in expected]
    assert rows[:, PLACE["overlap_lost"]] == pytest.approx([max(overlap) - o for o in overlap], abs=1e-6)
