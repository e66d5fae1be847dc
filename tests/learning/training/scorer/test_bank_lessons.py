"""Lessons from a bank: what says the same is told from what asks alike, and chance agreement is passed over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from learning.training.scorer.bank_lessons import CANDIDATES, Lesson, lessons, trusted
from router.examples.features import NAMES, PLACE, Features, RequestView
from router.plan import Candidate
from tests.router.examples.scoring import DIMENSIONS, example, rarity, unit

PLACES = "Eastwick Norvale Quostland Veldia Braxony Ulmera Ostrand Fennia Grolia Mirdan Sallow Tezzany"
CAPITALS = "Hekby Grushold Tarmouth Osterby Lundwick Arrow Pelmstad Vickby Dunmore Cazel Rimford Yarrowby"
TOWNS = dict(zip(PLACES.split(), CAPITALS.split(), strict=True))
"""So many that no capital is in a tenth of the answers."""


def bank() -> list[Candidate]:
    found = []
    for n, (town, capital) in enumerate(TOWNS.items()):
        for k, form in enumerate(("What is the capital of {}?", "{} capital?", "Which city governs {}?")):
            id = 3 * n + k
            told = example(id, question=form.format(town), answer=f"It is {capital}.", created_at_s=float(id))
            found.append(Candidate(told, 0.0, unit(n) * 0.9 + unit(100 + id) * 0.1, unit(50 + n)))
    return found


def asked(candidate: Candidate) -> RequestView:
    assert candidate.vector is not None
    return RequestView(candidate.example.question, candidate.vector, "large", 0.1)


def of(given: list[Candidate]) -> list[Lesson]:
    return lessons(given, Features(rarity()), asked)


def test_each_request_is_shown_who_says_what_it_needed_and_never_itself() -> None:
    found = of(bank())[: len(bank())]
    for lesson in found:
        assert lesson.scalars.shape == (CANDIDATES, len(NAMES))
        assert lesson.same.sum() == 2, "the two other ways to ask for the same town"
        assert not lesson.rule.any()
        assert lesson.questions.shape == lesson.answers.shape == (len(lesson.same), DIMENSIONS)


def test_strangers_are_shown_as_no_help_unless_they_would_be() -> None:
    strangers = of(bank())[len(bank()) :]
    assert strangers
    assert all(not (lesson.same & lesson.counts).any() for lesson in strangers)
    assert any(lesson.counts.any() for lesson in strangers)


def test_what_may_not_be_used_for_another_request_teaches_nothing_about_it() -> None:
    given = [replace(c, example=replace(c.example, scope=f"scope {c.example.id % 3}")) for c in bank()]
    near = of(given)[: len(given)]
    assert all(len(lesson.same) == len(TOWNS) - 1 and not lesson.same.any() for lesson in near)


def test_codes_of_one_form_show_the_rule() -> None:
    people = ("Anna Farnham", "Bert Millward", "Carl Oxbridge")
    given = [
        Candidate(
            example(
                n,
                question=f"username of {name}?",
                answer=f"It is {name[0].lower()}{name.split()[1].lower()}{n}.",
            ),
            0.0,
            unit(n),
        )
        for n, name in enumerate(people)
    ]
    assert all(lesson.rule.all() and not lesson.same.any() for lesson in of(given)[: len(people)])


def test_examples_without_a_vector_and_banks_of_one_teach_nothing() -> None:
    assert of([]) == of(bank()[:1]) == []
    assert of([replace(c, vector=None) for c in bank()]) == []


def test_an_agreement_that_nothing_else_speaks_for_is_passed_over() -> None:
    generator = np.random.default_rng(2)
    given, chance = [], []
    for n in range(200):
        scalars = np.zeros((CANDIDATES, len(NAMES)), np.float32)
        near = generator.random(CANDIDATES) < 0.3
        scalars[:, PLACE["request_rare_covered"]] = near
        by_chance = ~near & (generator.random(CANDIDATES) < 0.004)
        blank = np.zeros((CANDIDATES, DIMENSIONS), np.float32)
        every = np.ones(CANDIDATES, bool)
        given.append(Lesson(float(n), unit(n), blank, blank, scalars, near | by_chance, every, ~every, every))
        chance.append(by_chance)
    found = trusted(given, 0)
    for lesson, wrong in zip(found, chance, strict=True):
        assert not lesson.counts[wrong].any()
        assert lesson.counts[~wrong].all()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_bank_and_seed_give_the_same_lessons(seed: int) -> None:
    one, two = (lessons(bank(), Features(rarity()), asked, seed=seed) for _ in range(2))
    assert all(
        np.array_equal(a.scalars, b.scalars) and np.array_equal(a.counts, b.counts)
        for a, b in zip(one, two, strict=True)
    )
