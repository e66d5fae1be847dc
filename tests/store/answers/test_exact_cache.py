from __future__ import annotations

from store.answers.exact_cache import ExactCache
from store.sqlite.database import Database
from tests.store.rows import answer


def test_replacing_an_answer_keeps_the_books_straight(db: Database) -> None:
    ours = ExactCache(db, ttl_s=100.0, memory_bytes=100_000, disk_bytes=1_000_000, max_entry_bytes=10_000)
    for size in (10, 5000, 200):
        ours.put(b"k", "a1", answer(b"x" * size)).result(30)
    (real,) = db.read().execute("SELECT sum(size_bytes) FROM exact_answers").fetchone()
    assert ours.size_bytes() == real
    ours.forget(tenant="a1").result(30)
    assert ours.size_bytes() == 0
