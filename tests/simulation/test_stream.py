import itertools
import math
from collections import Counter

import pytest

from simulation.stream import Stream, Traffic
from simulation.topics import TOPICS
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


def test_popularity_follows_zipfs_law():
    plain = Traffic(exact_repeat=0, look_alike=0, one_off=0, small_talk=0, follow_up=0, compound=0)
    counts = Counter(a.facts[0].id for a in Stream(WORLD, 20_000, traffic=plain))
    top = [n for _, n in counts.most_common(60)]
    points = [(math.log(rank), math.log(n)) for rank, n in enumerate(top, 1)]
    mean_x, mean_y = (sum(v) / len(points) for v in zip(*points, strict=True))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    assert slope == pytest.approx(-plain.zipf_exponent, abs=0.15)


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


def test_new_topics_arrive_as_time_goes_by():
    first_asked: dict[str, int] = {}
    for ask in ASKS:
        for fact in ask.facts:
            first_asked.setdefault(fact.kind, ask.number)
    for topic in TOPICS:
        assert first_asked[topic.kind] >= topic.arrives_at * len(ASKS)
        assert first_asked[topic.kind] < (topic.arrives_at + 0.1) * len(ASKS)


def test_an_application_sends_the_same_system_prompt_every_time():
    by_kind: dict[str, Counter[str]] = {}
    for ask in ASKS:
        if ask.kind == "new":
            system = ask.messages[0]["content"] if ask.messages[0]["role"] == "system" else ""
            by_kind.setdefault(ask.facts[0].kind, Counter())[system] += 1
    assert len({max(c, key=lambda s: c[s]) for c in by_kind.values()}) == 4
    assert all(len(c) <= 2 for c in by_kind.values())


def test_a_follow_up_needs_the_conversation_before_it():
    follow_ups = [a for a in ASKS if a.kind == "follow_up"]
    alone = [a for a in follow_ups if WORLD.read(a.question).facts == a.facts]
    assert len(follow_ups) > 100
    assert alone == []
