"""What may enter a place with caps: nothing beyond them, but what is larger than a cap alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engines.placement import Rank
from engines.servers.caps import Caps, Held


def held(caps: Caps, *requests: tuple[Rank, int]) -> Held:
    place = Held(caps)
    for rank, tokens in requests:
        place.enters(rank, tokens)
    return place


def test_without_caps_everything_enters() -> None:
    assert not Caps().any
    place = held(Caps(), (Rank.LATENCY, 10**9))
    assert all(place.fits(rank, 10**9) for rank in Rank)


def test_beside_a_latency_request_the_lower_cap_holds_for_all() -> None:
    caps = Caps(60_000, 4_000)
    bulk = held(caps, (Rank.GROUP, 3_000))
    assert bulk.fits(Rank.THROUGHPUT, 50_000)
    bulk.enters(Rank.LATENCY, 500)
    assert not bulk.fits(Rank.THROUGHPUT, 1_000)
    assert bulk.fits(Rank.THROUGHPUT, 500)
    bulk.leaves(Rank.LATENCY, 500)
    assert bulk.fits(Rank.THROUGHPUT, 50_000)


def test_a_latency_request_does_not_wait_for_bulk_work_to_drain() -> None:
    caps = Caps(60_000, 4_000)
    assert held(caps, (Rank.GROUP, 50_000)).fits(Rank.LATENCY, 3_000)
    assert not held(caps, (Rank.GROUP, 50_000), (Rank.LATENCY, 3_000)).fits(Rank.LATENCY, 3_000)
    assert not held(caps, (Rank.GROUP, 59_000)).fits(Rank.LATENCY, 3_000)


def test_what_is_larger_than_a_cap_enters_alone() -> None:
    assert held(Caps(100, 10)).fits(Rank.LATENCY, 1_000)
    assert not held(Caps(100, 10), (Rank.GROUP, 1)).fits(Rank.GROUP, 1_000)


def test_it_tells_how_much_has_to_leave_first() -> None:
    place = held(Caps(100, 10), (Rank.GROUP, 80))
    assert place.excess(Rank.GROUP, 30) == place.excess(Rank.LATENCY, 30) == 10
    place.enters(Rank.LATENCY, 8, to_compute_tokens=5)
    assert place.excess(Rank.LATENCY, 5) == 3
    assert place.excess(Rank.GROUP, 5) == 83
    assert place.to_compute_tokens == 5
    place.computed(5)
    assert place.to_compute_tokens == 0


REQUESTS = st.lists(st.tuples(st.sampled_from(Rank), st.integers(1, 120)), max_size=60)


@given(REQUESTS, st.integers(1, 100), st.integers(1, 100), st.randoms(use_true_random=False))
def test_no_cap_is_ever_exceeded_by_two(
    requests: list[tuple[Rank, int]], tokens: int, latency: int, random
) -> None:  # type: ignore[no-untyped-def]
    place, inside = Held(Caps(tokens, latency)), list[tuple[Rank, int]]()
    for one in requests:
        if place.fits(*one):
            place.enters(*one)
            inside.append(one)
            everything = sum(size for _, size in inside)
            waited_for = [size for rank, size in inside if rank is Rank.LATENCY]
            assert len(inside) == 1 or everything <= tokens
            assert len(waited_for) <= 1 or sum(waited_for) <= latency
            assert one[0] is Rank.LATENCY or len(inside) == 1 or not waited_for or everything <= latency
        if inside and random.random() < 0.4:
            place.leaves(*inside.pop(random.randrange(len(inside))))
    for one in inside:
        place.leaves(*one)
    assert (place.requests, place.tokens, place.requests_of, place.tokens_of) == (0, 0, [0, 0, 0], [0, 0, 0])
