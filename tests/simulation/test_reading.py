import random

import pytest

from simulation.phrasing import Habits, core, dress, slip
from simulation.world import World

WORLD = World()


def fact_of(kind, key, number=0):
    return [f for f in WORLD.facts if f.kind == kind and f.relation.key == key][number]


CAPITAL = fact_of("place", "capital")
CURRENCY = next(f for f in WORLD.facts if f.entity == CAPITAL.entity and f.relation.key == "currency")
OTHER_CAPITAL = fact_of("place", "capital", 1)


def test_every_wording_is_read_as_the_fact_it_was_made_from():
    rng = random.Random(5)
    habits = Habits()
    for fact in WORLD.facts:
        question = dress(rng, core(rng, [fact], habits), habits)
        assert WORLD.read(question).facts == (fact,), question


def test_most_slips_of_the_finger_are_seen_through_and_none_that_leaves_the_words_whole():
    rng = random.Random(5)
    facts = rng.sample(WORLD.facts, 1000)
    read = [WORLD.read(slip(rng, core(rng, [f], Habits()))).facts == (f,) for f in facts]
    assert sum(read) / len(read) > 0.8


def test_the_last_name_mentioned_is_the_one_meant():
    text = f"I already know about {OTHER_CAPITAL.entity}. What is the capital of {CAPITAL.entity}?"
    assert WORLD.read(text).facts == (CAPITAL,)


def test_two_facts_can_be_asked_for_at_once():
    text = f"What are the capital and the currency of {CAPITAL.entity}?"
    assert WORLD.read(text).facts == (CAPITAL, CURRENCY)


@pytest.mark.parametrize(
    ("follow_up", "fact"),
    [("And its currency?", CURRENCY), (f"What about {OTHER_CAPITAL.entity}?", OTHER_CAPITAL)],
)
def test_a_follow_up_is_read_in_the_light_of_the_turn_before(follow_up, fact):
    messages = [
        {"role": "user", "content": f"What is the capital of {CAPITAL.entity}?"},
        {"role": "assistant", "content": f"{CAPITAL.value}."},
        {"role": "user", "content": follow_up},
    ]
    assert WORLD.read(messages).facts == (fact,)
    earlier = f"What is the capital of {CAPITAL.entity}? / {CAPITAL.value}."
    assert WORLD.read(f"{follow_up}\n(Earlier: {earlier})").facts == (fact,)


def test_a_follow_up_without_the_turn_before_means_nothing():
    assert WORLD.read("And its currency?").facts == ()


def test_a_pair_that_does_not_name_its_subject_is_understood_from_its_answer():
    messages = [
        {"role": "user", "content": f"What is the capital of {OTHER_CAPITAL.entity}?"},
        {"role": "assistant", "content": "Somewhere."},
        {"role": "user", "content": "And its currency?"},
        {"role": "assistant", "content": f"The currency of {CAPITAL.entity} is {CURRENCY.value}."},
        {"role": "user", "content": "Thanks."},
    ]
    assert [p.facts for p in WORLD.reader.pairs(messages)] == [(OTHER_CAPITAL,), (CURRENCY,)]


def test_text_in_parts_reads_like_plain_text():
    parts = [{"type": "text", "text": f"What is the capital of {CAPITAL.entity}?"}, {"type": "image_url"}]
    assert WORLD.read([{"role": "user", "content": parts}]).facts == (CAPITAL,)


@pytest.mark.parametrize(
    "messages", [[], [{"role": "system", "content": "Be kind."}], [{}], [{"role": "user", "content": None}]]
)
def test_a_conversation_that_asks_nothing_reads_as_nothing(messages):
    reading = WORLD.read(messages)
    assert reading.facts == ()
    assert reading.one_off is None
