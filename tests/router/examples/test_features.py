"""Features compare two questions by nearness, words, numbers and code, and an answer with the other candidates'."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.examples.features import NAMES, PLACE, Features, RequestView
from router.examples.rarity import Rarity
from router.plan import Candidate
from store.records import Example
from tests.router.examples.scoring import candidates, example, rarity, request, unit

NOW_S = 1000.0 + 86_400.0
FEATURES = Features(Rarity())


@pytest.fixture(scope="module")
def english() -> Features:
    return Features(rarity())


def values(name: str, near: list[Candidate], text: str = "", features: Features = FEATURES) -> list[float]:
    rows = features.rows(request(text) if text else request(), near, NOW_S)
    return rows[:, PLACE[name]].tolist()


def about(*questions: str, answers: tuple[str, ...] = ()) -> list[Candidate]:
    said = answers or ("yes",) * len(questions)
    return [
        Candidate(example(n, question=question, answer=answer), 0.9)
        for n, (question, answer) in enumerate(zip(questions, said, strict=True))
    ]


def test_there_are_at_most_24_features_and_a_row_for_each_candidate() -> None:
    assert len(NAMES) == len(set(NAMES)) <= 24
    assert FEATURES.rows(request(), candidates(), NOW_S).shape == (4, len(NAMES))
    assert FEATURES.rows(request(), [], NOW_S).shape == (0, len(NAMES))


def test_similarities_and_ranks_are_of_both_rankings() -> None:
    near = candidates()
    assert values("similarity", near) == pytest.approx([0.9, 0.8, 0.7, 0.6])
    assert values("similarity_lost", near) == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert values("similarity_rank", near) == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4])
    assert values("words", near) == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert values("words_rank", near) == pytest.approx([0, 1 / 3, 1 / 2, 1])
    assert max(values("fused", near)) == 1.0
    none = [replace(c, words=0.0) for c in near]
    assert values("words", none) == values("words_rank", none) == [0.0] * 4


def test_words_in_common_are_weighted_by_how_rare_they_are(english: Features) -> None:
    near = about("What is Eastwick?", "What is the population?", "Who?")
    covered = values("request_covered", near, features=english)
    assert covered[0] > covered[1] > covered[2] == 0.0
    assert values("question_covered", about("Eastwick"), features=english) == [pytest.approx(1.0)]


@pytest.mark.parametrize(
    ("asked", "remembered", "numbers", "code"),
    [
        ("With 3 eggs?", "And with 3 eggs?", 1.0, 0.0),
        ("With 3 eggs?", "And with 2 eggs?", -1.0, 0.0),
        ("With eggs?", "With butter?", 0.0, 0.0),
        ("Run ls -l here", "Then run ls -l", 0.0, 1.0),
        ("Where is foo_bar set?", "Where is foo_baz set?", 0.0, -1.0),
        ("Where is getName?", "Where is a name?", 0.0, -1.0),
    ],
)
def test_numbers_and_code_are_equal_or_not(asked: str, remembered: str, numbers: float, code: float) -> None:
    assert values("numbers", about(remembered), asked) == [numbers]
    assert values("code", about(remembered), asked) == [code]


def test_an_answer_that_others_give_agrees_most_with_those_near() -> None:
    near = about("a", "b", "c", answers=("card arrival", "card arrival", "lost phone"))
    even, weighted = values("agreement", near), values("agreement_near", near)
    assert even == pytest.approx([0.5, 0.5, 0.0], abs=1e-5)
    assert weighted[1] > weighted[0] > weighted[2], "the nearest says the same as the second"
    assert values("agreement", near[:1]) == [0.0]


def test_the_answers_embedding_counts_where_it_is_known() -> None:
    same = replace(candidates(1)[0], answer_vector=request().vector)
    other = replace(same, answer_vector=-request().vector)
    unknown = candidates(1)[0]
    assert values("answer_similarity", [same, other, unknown]) == pytest.approx([1.0, -1.0, 0.0])
    assert values("answer_similarity", [same, unknown]) == pytest.approx([1.0, 1.0]), "not held against it"
    assert values("answer_similarity", [unknown]) == [0.0]


def test_an_answer_that_names_what_is_asked_says_more_of_the_request(english: Features) -> None:
    near = about(*["What is it?"] * 3, answers=("Eastwick brews cider.", "What is brewed is cider.", "Cider"))
    said = values("request_answered", near, "What is Eastwick?", english)
    assert said[0] > said[1] > said[2] == 0.0


def test_what_is_known_of_the_example_itself_is_read() -> None:
    changed = example(
        kind="demonstration",
        flagged=True,
        merged=1,
        quality_sum=1.8,
        quality_count=2,
        gain=1.0,
        gain_at_s=NOW_S,
    )
    row = dict(
        zip(NAMES, FEATURES.rows(request(), [Candidate(changed, 0.5)], NOW_S)[0].tolist(), strict=True)
    )
    assert row["demonstration"] == row["flagged"] == row["from_reference"] == 1.0
    assert row["quality"] == pytest.approx(0.9) and row["gain"] == pytest.approx(0.5)
    assert row["age"] == pytest.approx(np.log(2)) == row["merged"]


def test_what_was_kept_of_a_text_changes_nothing() -> None:
    small = Features(Rarity(), cache_entries=1)
    for _ in range(2):
        assert (
            small.rows(request(), candidates(), NOW_S) == FEATURES.rows(request(), candidates(), NOW_S)
        ).all()


@pytest.mark.parametrize("caps", [{"cache_entries": 40}, {"cache_words": 1000}])
def test_what_is_kept_of_texts_is_bounded(caps: dict[str, int]) -> None:
    small = Features(Rarity(), **caps)
    tracemalloc.start()
    taken = []
    for begin in range(0, 600, 20):
        numbers = range(begin, begin + 20)
        near = [Candidate(example(question=f"{n} of {n + 7}", answer=f"{n} " * 20), 0.5) for n in numbers]
        small.rows(request(), near, NOW_S)
        # What other threads and late imports take meanwhile is none of it.
        own = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/router/examples/*")])
        taken.append(sum(trace.size for trace in own.traces))
    tracemalloc.stop()
    assert max(taken[15:]) <= 1.2 * max(taken[:15])


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60), st.floats(-1, 1), st.floats(0, 1e6))
def test_any_texts_give_finite_numbers(
    asked: str, said: str, answer: str, similarity: float, words: float
) -> None:
    kept = Example(1, 1, "t", "s", said, answer, "large", 0.0)
    near = [Candidate(kept, similarity, words=words), Candidate(kept, float("nan"))]
    rows = FEATURES.rows(RequestView(asked, unit(1)), near, NOW_S)
    assert np.isfinite(rows).all()
