"""Two processes that change the same examples at the same moment: nothing is kept twice, lost, or counted wrongly."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from store.answers.exact_cache import ExactCache
from store.database import Database
from store.examples.bank import ExampleBank
from tests.store.rows import answer, new_example, unit_vector


def test_what_both_do_is_as_if_one_had_come_after_the_other(
    db: Database, open_again: Callable[[], Database]
) -> None:
    banks = [ExampleBank(db), ExampleBank(open_again())]
    admitted = [bank.add(new_example(number, vector=None)) for number in range(20) for bank in banks]
    ids = [future.result(60).id for future in admitted]
    assert ids[::2] == ids[1::2], "the same request is the same example"
    done: list[Future[object]] = []
    for number, id in enumerate(ids[::2]):
        for bank in banks:
            done.append(bank.set_vector(id, unit_vector(number), "v1"))  # type: ignore[arg-type]
            done.append(bank.update("a1", id, answer="longer " * number))  # type: ignore[arg-type]
            bank.note_use([id])
            if number % 3 == 0:
                done.append(bank.remove("a1", [id]))  # type: ignore[arg-type]
    done += [written for bank in banks for written in bank.ledger.flush()]  # type: ignore[misc]
    for future in done:
        future.result(60)
    left = banks[0].page("a1", limit=100)
    assert len(left) == banks[0].count() == 13
    assert {example.uses for example in left} == {2}
    assert banks[1].totals("a1").size_bytes == sum(example.size_bytes for example in left)
    changes = banks[0].tail(0)
    assert len({change.seq for change in changes}) == len(changes) == 20
    assert sum(change.removed for change in changes) == 7


def test_an_answer_is_not_kept_where_its_example_is_taken_back_elsewhere(
    db: Database, open_again: Callable[[], Database]
) -> None:
    ours, theirs = ExampleBank(db), ExampleBank(open_again())
    cache = ExactCache(db, ttl_s=100.0, memory_bytes=0, disk_bytes=1_000_000, max_entry_bytes=10_000)
    for number in range(20):
        example = ours.add(new_example(number)).result(60)
        key = b"%d" % number
        kept = cache.put(key, "a1", answer(), examples=[example])
        assert theirs.remove("a1", [example.id]).result(60) == 1
        kept.result(60)
        assert cache.get(key, 1001.0) is None
