from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace

import orjson
import pytest

from store.answers.exact_cache import ExactCache, Put
from store.errors import StoreBusy
from store.records import ExactAnswer
from tests.patience import eventually
from tests.store.contract.conftest import Opening
from tests.store.rows import answer

SETTINGS = {
    "exact_ttl_s": 100.0,
    "exact_memory_bytes": 100_000,
    "exact_disk_bytes": 1_000_000,
    "exact_max_entry_bytes": 10_000,
}


@pytest.fixture
def cache(open_store: Opening) -> Callable[..., ExactCache]:
    """Opens the store once more; gives its exact answers."""
    return lambda **changes: open_store(**(SETTINGS | changes)).answers.exact


@pytest.fixture
def taken_bytes() -> Iterator[Callable[[], int]]:
    """Bytes that Python's objects take now, of those made during the test."""
    tracemalloc.start()

    def taken() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    yield taken
    tracemalloc.stop()


def test_an_answer_comes_back_as_it_was_from_memory_and_from_disk(cache: Callable[..., ExactCache]) -> None:
    ours = cache()
    assert ours.get(b"k", 1001.0) is None
    assert ours.put(b"k", "a1", answer()).result(30) is True
    assert ours.get(b"k", 1001.0) == answer()
    assert cache().get(b"k", 1001.0) == answer()
    assert cache(exact_memory_bytes=0).get(b"k", 1001.0) == answer()


def test_an_expired_answer_is_never_served_from_either_tier(cache: Callable[..., ExactCache]) -> None:
    ours = cache()
    ours.put(b"k", "a1", answer(stored_at_s=1000.0)).result(30)
    for reading in (ours, cache()):
        assert reading.get(b"k", 1099.9) is not None
        assert reading.get(b"k", 1100.0) is None
    assert ours.trim(1100.0).result(30) == 1
    assert ours.size_bytes() == 0


def test_an_answer_from_the_future_is_never_served_and_is_trimmed(cache: Callable[..., ExactCache]) -> None:
    ours = cache()
    ours.put(b"ahead", "a1", answer(stored_at_s=1061.0)).result(30)
    ours.put(b"hardly", "a1", answer(stored_at_s=1060.0)).result(30)
    assert ours.get(b"ahead", 1000.0) is None
    assert cache().get(b"ahead", 1000.0) is None, "nor from disk"
    assert ours.get(b"hardly", 1000.0) is not None, "two clocks are never quite the same"
    assert ours.trim(1000.0).result(30) == 1
    assert cache().get(b"ahead", 1061.0) is None


def test_every_answer_tells_how_long_it_may_be_replayed(cache: Callable[..., ExactCache]) -> None:
    ours = cache()
    ours.put(b"k", "a1", replace(answer(), ttl_s=0.0)).result(30)
    found = [ours.get(b"k", 1001.0), cache().get(b"k", 1001.0)]
    assert [kept and kept.ttl_s for kept in found] == [100.0, 100.0]


@pytest.mark.slow
def test_an_answer_that_was_just_written_takes_its_bytes_and_no_more(
    cache: Callable[..., ExactCache], taken_bytes: Callable[[], int]
) -> None:
    ours = cache(exact_memory_bytes=1_000_000)
    before = taken_bytes()
    for number in range(100):
        # orjson makes 64 KB for such a text.
        ours.put(b"%d" % number, "a1", answer(orjson.dumps("x" * 5000))).result(30)
    assert taken_bytes() - before < 100 * 10_000


@pytest.mark.slow
def test_what_has_expired_is_let_go_of_in_memory_too(
    cache: Callable[..., ExactCache], taken_bytes: Callable[[], int]
) -> None:
    ours = cache()
    for number in range(10):
        ours.put(b"%d" % number, "a1", answer(b"x" * 8000, 1000.0 + number)).result(30)
    before = taken_bytes()
    ours.trim(1105.0).result(30)
    # PostgreSQL's threads take and give back some memory meanwhile.
    assert 5.5 * 8000 < before - taken_bytes() < 7 * 8000
    assert [number for number in range(10) if ours.get(b"%d" % number, 1105.0)] == [6, 7, 8, 9]


def test_an_answer_over_the_size_cap_is_not_kept(cache: Callable[..., ExactCache]) -> None:
    ours = cache()
    assert ours.put(b"k", "a1", answer(b"x" * 10_001)).result(30) is False
    assert ours.get(b"k", 1001.0) is None


def test_an_answer_larger_than_all_memory_is_kept_on_disk(cache: Callable[..., ExactCache]) -> None:
    ours = cache(exact_memory_bytes=1000)
    ours.put(b"k", "a1", answer(b"x" * 5000)).result(30)
    assert ours.get(b"k", 1001.0) == answer(b"x" * 5000)


def test_the_disk_cap_holds_and_the_least_recently_used_go_first(cache: Callable[..., ExactCache]) -> None:
    ours = cache(exact_disk_bytes=20_000, exact_memory_bytes=0)
    for number in range(10):
        ours.put(b"%d" % number, "a1", answer(b"x" * 1000, 1000.0 + number)).result(30)
    assert ours.get(b"0", 1020.0) is not None
    noted = ours.flush_uses()
    assert noted is not None
    noted.result(30)

    for number in range(10, 22):
        ours.put(b"%d" % number, "a1", answer(b"x" * 1000, 1000.0 + number)).result(30)

    assert ours.size_bytes() <= 20_000
    there = [number for number in range(22) if ours.get(b"%d" % number, 1030.0)]
    assert 0 in there
    assert 1 not in there
    assert there[1:] == list(range(there[1], 22))


def test_what_was_forgotten_is_gone_at_once_and_stays_gone(cache: Callable[..., ExactCache]) -> None:
    ours = cache()
    ours.put(b"k", "a1", answer()).result(30)
    assert ours.forget().result(30) == 1
    assert ours.get(b"k", 1001.0) is None
    assert cache().get(b"k", 1001.0) is None
    assert ours.forget().result(30) == 0


def test_forgetting_a_tenant_leaves_the_others_alone(cache: Callable[..., ExactCache]) -> None:
    ours = cache()
    for number in range(6):
        ours.put(b"%d" % number, "a1" if number % 2 else "b2", answer(b"%d" % number)).result(30)
    assert ours.forget(tenant="a1").result(30) == 3
    assert [number for number in range(6) if ours.get(b"%d" % number, 1001.0)] == [0, 2, 4]


@pytest.fixture
def two(cache: Callable[..., ExactCache]) -> list[ExactCache]:
    return [cache(), cache()]


def test_an_answer_written_by_another_worker_is_found(two: list[ExactCache]) -> None:
    ours, theirs = two
    theirs.put(b"k", "a1", answer()).result(30)
    assert ours.get(b"k", 1001.0) == answer()


@pytest.mark.parametrize("whose", [{}, {"tenant": "a1"}], ids=str)
def test_a_deletion_by_another_worker_holds_here_from_its_commit_on(
    two: list[ExactCache], whose: dict[str, str], holds: Callable[[Callable[[], object]], bool]
) -> None:
    ours, theirs = two
    for _ in range(20):
        ours.put(b"k", "a1", answer(), request_id="req-1").result(30)
        assert ours.get(b"k", 1001.0) == answer()
        assert theirs.forget(**whose).result(30) == 1
        assert holds(lambda: ours.get(b"k", 1001.0) is None)


def test_a_refreshed_answer_reaches_another_worker_s_memory(two: list[ExactCache]) -> None:
    ours, theirs = two
    ours.put(b"k", "a1", answer(b"old")).result(30)
    theirs.put(b"k", "a1", answer(b"new", 1001.0)).result(30)
    assert eventually(lambda: ours.get(b"k", 1002.0) == answer(b"new", 1001.0))


def test_what_was_read_is_held_in_memory_though_this_process_has_deleted_answers_before(
    open_store: Opening,
) -> None:
    ours, theirs = open_store(**SETTINGS), open_store(**SETTINGS)
    ours.answers.exact.forget().result(30)

    def held() -> bool:
        """An answer that was read once is there without its row, which goes without anybody being told."""
        theirs.answers.exact.put(b"k", "a1", answer()).result(30)
        assert eventually(lambda: ours.answers.exact.get(b"k", 1001.0) == answer())
        theirs._db.write(lambda connection: connection.execute("DELETE FROM exact_answers")).result(30)
        return ours.answers.exact.get(b"k", 1001.0) is not None

    # PostgreSQL's news of the deletion may come after the first answer.
    assert eventually(held, timeout_s=10)


def test_a_store_that_is_too_busy_to_write_still_remembers_in_memory(
    cache: Callable[..., ExactCache],
) -> None:
    cache()
    ours = cache(max_pending=0)
    with pytest.raises(StoreBusy):
        ours.put(b"k", "a1", answer())
    assert ours.get(b"k", 1001.0) == answer()


def test_who_could_not_look_in_time_replaces_nothing_and_no_process_forgets_what_it_holds(
    cache: Callable[..., ExactCache],
) -> None:
    ours, theirs = cache(), cache()
    ours.put(b"k", "a1", answer(body=b"first")).result(30)
    ours.put(b"other", "a1", answer()).result(30)
    before = theirs.get(b"other", 1001.0)
    assert theirs.put(b"k", "a1", answer(body=b"second"), unread=True).result(30) is False
    for reading in (theirs, ours):
        found = reading.get(b"k", 1001.0)
        assert found is not None and found.body == b"first"
    assert theirs.get(b"other", 1001.0) is before
    assert theirs.put(b"new", "a1", answer(), unread=True).result(30) is True
    assert ours.get(b"new", 1001.0) == answer()


def test_an_answer_that_is_about_to_be_put_is_found_already_and_before_an_older_one(
    cache: Callable[..., ExactCache],
) -> None:
    ours = cache()
    ours.put(b"k", "a1", answer(b"old")).result(30)
    ours.expect(b"k", lambda: answer(b"new"))
    found = ours.get(b"k", 1001.0)
    assert found is not None and found.body == b"new" and found.ttl_s == 100.0
    assert cache().get(b"k", 1001.0) == answer(b"old"), "others find it once it is written"
    ours.expect_no_more(b"k")
    assert ours.get(b"k", 1001.0) == answer(b"old")
    ours.expect_no_more(b"k")


@pytest.mark.parametrize("expected", [None, answer(b"x" * 10_001), answer(stored_at_s=900.0)])
def test_what_is_expected_may_be_no_answer_after_all(
    cache: Callable[..., ExactCache], expected: ExactAnswer | None
) -> None:
    ours = cache()
    ours.expect(b"k", lambda: expected)
    assert ours.get(b"k", 1001.0) is None


def test_answers_are_put_together_as_they_are_one_by_one(cache: Callable[..., ExactCache]) -> None:
    ours, others = cache(), cache()
    ours.put(b"1", "a1", answer(b"old")).result(30)
    assert others.get(b"1", 1001.0) == answer(b"old")
    puts = [Put(b"%d" % n, "a1", answer(b"new"), f"req-{n}", "") for n in (0, 1, 2, 2)]
    written = ours.put_all([*puts, Put(b"large", "a1", answer(b"x" * 10_001), "req-3", "")])
    assert [ours.get(b"%d" % n, 1001.0) for n in range(3)] == [answer(b"new")] * 3
    written.result(30)
    for reading in (others, cache()):
        eventually(lambda reading=reading: reading.get(b"1", 1001.0) == answer(b"new"))
        assert [reading.get(b"%d" % n, 1001.0) for n in range(3)] == [answer(b"new")] * 3
        assert reading.get(b"large", 1001.0) is None
    assert ours.count("a1") == 3 and ours.answered(b"0") == ""


def test_answers_that_are_put_together_obey_the_disk_cap(cache: Callable[..., ExactCache]) -> None:
    ours = cache(exact_disk_bytes=20_000)
    for first in (0, 10):
        numbers = range(first, first + 10)
        puts = [Put(b"%d" % n, "a1", answer(b"x" * 1000, 1000.0 + n), f"req-{n}", "") for n in numbers]
        ours.put_all(puts).result(30)
    assert 18_000 < ours.size_bytes() <= 20_000
    kept = [n for n in range(20) if cache().get(b"%d" % n, 1030.0)]
    assert kept == list(range(kept[0], 20))
