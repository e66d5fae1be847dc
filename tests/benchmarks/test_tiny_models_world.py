"""The world of the tiny models: what a question is, what is right, and that its words are what a tokenizer can look up."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.tiny_models.vocabulary import make_tokenizer
from benchmarks.tiny_models.world import NOUNS, PHRASINGS, VERBS, Fact, World

WORLD = World()


def test_worlds_of_one_seed_are_one_world_and_of_another_are_not() -> None:
    assert World().facts == World().facts
    assert World(seed=8).facts != WORLD.facts


@pytest.mark.parametrize("facts", [0, 3, 202, 100_000])
def test_a_world_that_cannot_be_is_refused_with_what_would_be_right(facts: int) -> None:
    with pytest.raises(ValueError, match="a multiple of 4"):
        World(facts)


def test_no_two_towns_and_no_two_trades_are_the_same() -> None:
    assert len({fact.town for fact in WORLD.facts}) == len(WORLD.facts) == 200
    assert len({(fact.verb, fact.noun) for fact in WORLD.facts}) == 200


def test_the_towns_of_a_family_differ_in_one_letter() -> None:
    for start in range(0, 200, 4):
        first, *others = (fact.town for fact in WORLD.facts[start : start + 4])
        for other in others:
            assert sum(a != b for a, b in zip(first, other, strict=True)) == 1


@given(st.sampled_from(WORLD.facts), st.sampled_from(WORLD.facts), st.integers(0, len(PHRASINGS) - 1))
def test_only_the_whole_right_answer_is_right(fact: Fact, other: Fact, phrasing: int) -> None:
    question = fact.question(phrasing)
    assert WORLD.is_right(question, f" {fact.answer}\n")
    assert WORLD.is_right(question, other.answer) == (fact == other)
    assert not WORLD.is_right(question, fact.answer + " And bells.") and not WORLD.is_right(question, "")


def test_every_phrasing_names_the_town_right_after_its_only_of() -> None:
    for phrasing in PHRASINGS:
        assert phrasing.split().count("of") == 1 and "of {}" in phrasing


def test_what_is_known_by_heart_is_the_same_every_time() -> None:
    assert WORLD.remembered(0.25) == World().remembered(0.25) and len(WORLD.remembered(0.25)) == 50


def test_a_lesson_draws_trades_that_are_not_the_worlds() -> None:
    drawn = WORLD.redrawn(random.Random(0), 50)
    assert len({fact.town for fact in drawn}) == 50
    assert sum(fact in WORLD.facts for fact in drawn) <= 2


def test_every_word_that_must_be_looked_up_is_one_token_and_any_text_can_be_read() -> None:
    tokenizer = make_tokenizer(WORLD)
    for word in (*(fact.town for fact in WORLD.facts), *VERBS, *NOUNS):
        assert len(tokenizer.encode(" " + word).ids) == 1
    text = "Any text – 漢字, \n tabs\t and <b>marks</b>."
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_the_template_of_the_serving_engine_writes_what_training_wrote() -> None:
    jinja2 = pytest.importorskip("jinja2")
    from benchmarks.tiny_models.vocabulary import CHAT_TEMPLATE, prompt

    said = [("system", "Be brief."), ("user", "Hi of X?"), ("assistant", "So."), ("user", "And?")]
    messages = [{"role": role, "content": content} for role, content in said]
    rendered = jinja2.Template(CHAT_TEMPLATE).render(messages=messages, add_generation_prompt=True)
    assert rendered == prompt(said)


def test_a_conversation_in_pieces_is_tokenized_as_it_is_whole() -> None:
    from benchmarks.tiny_models.vocabulary import prompt

    tokenizer, fact = make_tokenizer(WORLD), WORLD.facts[0]
    head = prompt([("user", fact.question(0))])
    pieces = tokenizer.encode(head).ids + tokenizer.encode(fact.answer).ids
    assert tokenizer.encode(head + fact.answer).ids == pieces
