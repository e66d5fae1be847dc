import itertools
from collections import Counter

import pytest

from simulation.stream import Stream, Traffic
from simulation.world import World

WORLD = World()
ASKS = list(Stream(WORLD, 4000))


def test_the_same_seed_gives_the_same_requests_and_another_seed_others():
    assert list(Stream(WORLD, 300)) == list(itertools.islice(Stream(WORLD, 300), 300))
    assert list(Stream(World(), 300)) == list(Stream(WORLD, 300))
    assert list(Stream(WORLD, 300, seed=8)) != list(Stream(WORLD, 300))


def test_what_is_asked_can_be_told_from_the_messages_alone():
    for ask in ASKS:
        assert WORLD.read(ask.messages).facts == ask.facts, ask
        assert ask.facts or WORLD.read(ask.messages).one_off is not None


def test_every_kind_of_request_has_about_its_share():
    shares = {k: n / len(ASKS) for k, n in Counter(a.kind for a in ASKS).items()}
    traffic = Traffic()
    assert shares["exact_repeat"] == pytest.approx(traffic.exact_repeat, abs=0.02)
    assert shares["one_off"] == pytest.approx(traffic.one_off, abs=0.02)
    assert shares["follow_up"] == pytest.approx(traffic.follow_up, abs=0.02)
    assert shares["look_alike"] == pytest.approx(traffic.look_alike, abs=0.03)
    assert shares["new"] > 0.5


def test_an_exact_repeat_is_an_earlier_conversation_to_the_byte():
    seen = []
    for ask in ASKS[:1000]:
        if ask.kind == "exact_repeat":
            assert ask.messages in seen
        seen.append(ask.messages)


def test_a_look_alike_has_the_words_of_an_earlier_question_and_another_answer():
    by_wording: dict[str, set[str]] = {}
    near = 0
    for ask in ASKS:
        if len(ask.facts) != 1:
            continue
        fact = ask.facts[0]
        wording = ask.question.casefold().replace(fact.entity.casefold(), "{e}")
        earlier = by_wording.setdefault(wording, set())
        if ask.kind == "look_alike":
            assert earlier - {fact.entity}, ask
            near += any(
                f.family == fact.family for f in WORLD.facts if f.kind == fact.kind and f.entity in earlier
            )
        earlier.add(fact.entity)
    assert near > 30


def test_a_follow_up_needs_the_conversation_before_it():
    follow_ups = [a for a in ASKS if a.kind == "follow_up"]
    alone = [a for a in follow_ups if WORLD.read(a.question).facts == a.facts]
    assert len(follow_ups) > 100
    assert alone == []
