"""The batch: how long steps take, what is let in, memory, and conservation for random requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.batching import ENGINE_OF_2024, Batch, Generation, Rules, Speed
from simulation.kv_blocks import BLOCK_TOKENS

SPEED = Speed(step_s=0.01, kv_token_s=1e-6, prefill_token_s=1e-4, kv_tokens=4_000)


def asked(prompt: int, answer: int, priority: int = 0, same: int = 0) -> Generation:
    """A request whose first `same` tokens are as all others'."""
    own = object()
    places = range(prompt // BLOCK_TOKENS)
    hashes = [hash((place, None if (place + 1) * BLOCK_TOKENS <= same else id(own))) for place in places]
    asked.owned = [*getattr(asked, "owned", []), own]  # type: ignore[attr-defined]
    return Generation(hashes, prompt, answer, priority)


def played(batch: Batch) -> tuple[float, list[tuple[Generation, float, bool]]]:
    """Seconds until all is done; and who had news when, and whether it was the end."""
    now, news = 0.0, []
    while (stretch := batch.begin()) is not None:
        now += stretch.seconds()
        news += [(one, now, not one.left) for one in batch.end(stretch.steps)]
    return now, news


def ends(news: list[tuple[Generation, float, bool]]) -> list[Generation]:
    return [one for one, _, ended in news if ended]


def test_one_request_takes_a_step_per_token_and_what_its_prompt_and_memory_cost() -> None:
    batch = Batch(SPEED, Rules())
    batch.add(asked(100, 3))
    seconds, news = played(batch)
    assert seconds == pytest.approx(3 * 0.01 + 100 * 1e-4 + (100 + 101) * 1e-6)
    assert [ended for _, _, ended in news] == [False, True]
    assert news[0][1] == pytest.approx(0.01 + 100 * 1e-4)


def test_a_step_of_the_chain_of_the_paper_takes_what_its_constants_say() -> None:
    batch = Batch(ENGINE_OF_2024, Rules())
    batch.add(asked(1024, 25))
    seconds, _ = played(batch)
    assert seconds == pytest.approx(25 * 0.027 + 1024 * 160e-6, rel=0.02)


def test_decoding_together_costs_one_step_for_all() -> None:
    batch = Batch(SPEED, Rules())
    for _ in range(8):
        batch.add(asked(16, 50))
    seconds, news = played(batch)
    assert len(ends(news)) == 8 and seconds < 51 * 0.01 + 8 * 16 * 1e-4 + 51 * 8 * 70 * 1e-6


def test_a_long_prompt_is_computed_in_chunks_while_others_decode() -> None:
    batch = Batch(SPEED, Rules(chunk_tokens=256))
    batch.add(asked(16, 100))
    assert batch.begin() is not None
    batch.end(1)
    batch.add(asked(1_000, 2))
    steps = 0
    while batch.running < 2 or batch.waiting or not all(one.decoding for one in batch._running):
        stretch = batch.begin()
        assert stretch is not None and stretch.steps == 1
        batch.end(1)
        steps += 1
    assert steps == 4, "1,000 tokens in chunks of 256"


def test_a_known_beginning_is_not_computed_again() -> None:
    batch = Batch(SPEED, Rules())
    first, second = asked(800, 2, same=640), asked(800, 2, same=640)
    batch.add(first)
    before, _ = played(batch)
    batch.add(second)
    after, _ = played(batch)
    assert (first.cached, second.cached) == (0, 640)
    # Its memory is read all the same.
    assert before - after == pytest.approx(640 * (1e-4 - 1e-6))


def test_without_a_prefix_cache_it_is() -> None:
    batch = Batch(SPEED, Rules(prefix_cache=False))
    first, second = asked(800, 2, same=640), asked(800, 2, same=640)
    for one in (first, second):
        batch.add(one)
        played(batch)
    assert second.cached == 0


def test_a_request_of_the_same_step_finds_what_that_step_computes() -> None:
    batch = Batch(SPEED, Rules())
    first, second = asked(640, 2, same=640), asked(640, 2, same=640)
    batch.add(first)
    batch.add(second)
    played(batch)
    assert second.cached == 624, "all but the block of the last token, which is always computed"


def test_a_cap_lets_in_by_tokens_and_one_always() -> None:
    batch = Batch(SPEED, Rules(cap_tokens=1_000))
    large = asked(1_500, 10)
    batch.add(large)
    small = [asked(390, 10) for _ in range(3)]
    for one in small:
        batch.add(one)
    batch.begin()
    assert (batch.running, batch.waiting) == (1, 3)
    _, news = played(batch)
    assert ends(news) == [large, *small]


def test_at_most_so_many_tokens_are_in_flight_under_a_cap() -> None:
    batch = Batch(SPEED, Rules(cap_tokens=1_000))
    for _ in range(10):
        batch.add(asked(300, 10))
    most = 0
    while (stretch := batch.begin()) is not None:
        most = max(most, batch.tokens_in_flight)
        batch.end(stretch.steps)
    assert most == 930


def test_priority_counts_where_it_is_on() -> None:
    for on, order in ((True, [2, 1, 0]), (False, [0, 1, 2])):
        batch = Batch(SPEED, Rules(priorities=on, max_running=1))
        requests = [asked(16, 2, priority=-place) for place in range(3)]
        for one in requests:
            batch.add(one)
        _, news = played(batch)
        assert [requests.index(one) for one in ends(news)] == order


def test_who_came_last_is_put_back_where_memory_runs_out_and_still_ends() -> None:
    batch = Batch(SPEED, Rules())
    requests = [asked(900, 400) for _ in range(4)]
    for one in requests:
        batch.add(one)
    _, news = played(batch)
    assert batch.preemptions > 0 and requests[-1].preempted > 0 and requests[0].preempted == 0
    assert len(ends(news)) == 4 and all(one.produced == 400 for one in requests)
    assert batch.kv_use == 0.0


def test_one_that_left_frees_its_memory() -> None:
    batch = Batch(SPEED, Rules(prefix_cache=False))
    one, waiting = asked(3_000, 100), asked(3_000, 2)
    batch.add(one)
    batch.add(waiting)
    batch.begin()
    batch.remove(one)
    assert batch.kv_use == 0.0
    _, news = played(batch)
    assert ends(news) == [waiting]
    batch.remove(waiting)


def test_what_can_never_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        Batch(SPEED, Rules()).add(asked(3_990, 100))
    with pytest.raises(ValueError, match="do not fit"):
        Batch(SPEED, Rules()).add(asked(10, 0))


def test_a_stretch_knows_how_many_steps_have_begun() -> None:
    batch = Batch(SPEED, Rules())
    batch.add(asked(16, 100))
    batch.begin()
    batch.end(1)
    stretch = batch.begin()
    assert stretch is not None and stretch.steps == 99
    assert stretch.steps_begun(0.0) == 1
    assert stretch.steps_begun(stretch.seconds(7)) == 7
    assert stretch.steps_begun(stretch.seconds(7) + 1e-6) == 8
    assert stretch.steps_begun(1e9) == 99


REQUESTS = st.lists(
    st.tuples(st.integers(1, 1_500), st.integers(1, 300), st.integers(0, 3), st.integers(0, 800)),
    min_size=1,
    max_size=25,
)
RULES = st.builds(
    Rules,
    prefix_cache=st.booleans(),
    cap_tokens=st.none() | st.integers(100, 4_000),
    chunk_tokens=st.sampled_from([64, 512, 2048]),
    max_running=st.sampled_from([1, 4, 256]),
    priorities=st.booleans(),
)


@given(REQUESTS, RULES, st.integers(1, 10))
def test_all_requests_end_with_all_their_tokens_and_no_block_is_lost(
    sizes: list[tuple[int, int, int, int]], rules: Rules, every: int
) -> None:
    batch, requests, finished = Batch(SPEED, rules), [asked(*one) for one in sizes], []
    for one in requests:
        batch.add(one)
    steps = 0
    while (stretch := batch.begin()) is not None:
        blocks = batch._blocks
        assert blocks.available >= 0
        assert len(blocks._held) + len(blocks._idle) + blocks._plain <= blocks._total
        # Somebody looks in after a few steps, as an arrival does.
        finished += ends([(one, 0.0, not one.left) for one in batch.end(min(every, stretch.steps))])
        steps += 1
        assert steps < 200_000
    assert sorted(map(id, finished)) == sorted(map(id, requests))
    assert all(one.produced == one.answer for one in requests)
    assert batch._blocks._plain == 0 and not batch._blocks._held
