"""A step goes where it waits least, where its prompt is cached, and where it harms others least; workers agree."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from engines.placement import Rank
from engines.servers.caps import Caps, Held
from engines.servers.find_engine import Candidate, Step, cost, find_engine

CHAT = Step(Rank.LATENCY, 800, 200)
MAP = Step(Rank.GROUP, 1_000, 50)
NAMES = "abcd"


def held(*requests: tuple[Rank, int], caps: Caps | None = None) -> Held:
    place = Held(caps or Caps())
    for rank, tokens in requests:
        place.enters(rank, tokens)
    return place


def found(step: Step, *candidates: Candidate) -> str:
    return find_engine(step, candidates).name


def home_of(prefix: str):  # type: ignore[no-untyped-def]
    def home(weights: Mapping[str, float]) -> str:
        return max(weights, key=lambda name: hashlib.blake2b(f"{prefix}{name}".encode()).digest())

    return home


def test_the_prompt_that_is_cached_decides_between_equals() -> None:
    assert found(MAP, Candidate("a", held(), 0), Candidate("b", held(), 500)) == "b"


def test_the_emptier_one_decides_where_nothing_is_cached() -> None:
    busy = held(*[(Rank.GROUP, 1_000)] * 20)
    assert found(MAP, Candidate("a", busy, 0), Candidate("b", held(), 0)) == "b"


def test_a_hot_prefix_spreads() -> None:
    """Of thirty alike at once, all but the first find their prefix somewhere; they do not all go there."""
    places = {name: held() for name in NAMES}
    cached = dict.fromkeys(NAMES, 0)
    went: Counter[str] = Counter()
    for _ in range(30):
        one = find_engine(MAP, [Candidate(name, places[name], cached[name]) for name in NAMES])
        to_compute = MAP.prompt_tokens - one.cached_tokens
        one.held.enters(MAP.rank, MAP.tokens, to_compute)
        cached[one.name] = 900
        went[one.name] += 1
    assert max(went.values()) <= 10


def test_chats_stay_together_beside_bulk_work() -> None:
    """One place slows down for them, not all four, until it holds as many as it may."""
    caps = Caps(60_000, 6_000)
    places = {name: held(*[(Rank.GROUP, 1_500)] * 20, caps=caps) for name in NAMES}
    went = []
    for _ in range(5):
        one = find_engine(CHAT, [Candidate(name, places[name], 0) for name in NAMES])
        one.held.enters(CHAT.rank, CHAT.tokens)
        went.append(one.name)
    assert len(set(went)) == 1


def test_a_chat_prefers_a_place_without_bulk_work_and_bulk_work_one_without_chats() -> None:
    bulk, chats = held(*[(Rank.GROUP, 1_500)] * 20), held(*[(Rank.LATENCY, 1_000)] * 20)
    candidates = Candidate("bulk", bulk, 0), Candidate("chats", chats, 0)
    assert found(MAP, *candidates) == "bulk"
    few = Candidate("bulk", bulk, 0), Candidate("chats", held((Rank.LATENCY, 1_000)), 0)
    assert found(CHAT, *few) == "chats"


def test_what_is_full_waits() -> None:
    step, place = MAP, held((Rank.GROUP, 1_000), (Rank.GROUP, 1_000))
    free, full = Candidate("a", place, 0), Candidate("a", place, 0, full=True)
    assert cost(step, full, 0) > cost(step, free, 0)
    capped = held((Rank.GROUP, 1_000), (Rank.GROUP, 1_000), caps=Caps(2_500))
    assert cost(step, Candidate("a", capped, 0), 0) > cost(step, free, 0)
    assert cost(step, Candidate("a", place, 0, queued=4), 0) > cost(step, free, 0)
    assert cost(step, Candidate("a", place, 0, weight=2.0), 0) == cost(step, free, 0) / 2


def test_a_cold_prefix_goes_where_another_worker_would_send_it() -> None:
    """Two that do not talk and see different load agree on nearly all of many prefixes."""
    agreed = 0
    for prefix in range(200):
        home = home_of(f"{prefix}")
        mine = find_engine(MAP, [Candidate(name, held(), 0) for name in NAMES], home)
        theirs = find_engine(
            MAP, [Candidate(name, held((Rank.GROUP, 300 * at)), 0) for at, name in enumerate(NAMES)], home
        )
        agreed += mine.name == theirs.name
    assert agreed == 200


def test_a_home_that_holds_too_much_is_passed_over() -> None:
    home = home_of("x")
    at = home(dict.fromkeys(NAMES, 1.0))
    candidates = [Candidate(name, held((Rank.GROUP, 60_000 if name == at else 100)), 0) for name in NAMES]
    assert find_engine(MAP, candidates, home).name != at


REQUESTS = st.lists(st.tuples(st.sampled_from(Rank), st.integers(1, 50_000)), max_size=30)
STEPS = st.builds(Step, st.sampled_from(Rank), st.integers(0, 10**6), st.integers(0, 10**5))


@given(STEPS, st.lists(REQUESTS, min_size=1, max_size=6), st.data())
def test_costs_are_numbers_and_a_cached_prompt_never_costs_more(
    step: Step, places: list[list[tuple[Rank, int]]], data: st.DataObject
) -> None:
    caps = data.draw(st.sampled_from([Caps(), Caps(1_000), Caps(None, 100), Caps(50_000, 5_000)]))
    candidates = [Candidate(f"{n}", held(*requests, caps=caps), n) for n, requests in enumerate(places)]
    for one in candidates:
        assert 0 <= cost(step, one, step.prompt_tokens) <= cost(step, one, 0) < float("inf")
    assert find_engine(step, candidates, home_of("p")) in candidates
