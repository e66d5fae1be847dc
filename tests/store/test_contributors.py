"""Who contributed, per tenant."""

from __future__ import annotations

from pathlib import Path

from store.contributors import contributors, tenants
from store.database import Database
from store.exact_cache import ExactCache
from store.examples import ExampleBank
from tests.store.rows import answer, new_example


def test_contributors_are_a_tenants_own_and_the_unknown_is_nobody(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "understudy.db")
    bank = ExampleBank(db)
    for number, (tenant, name) in enumerate(
        [("a1", "k2/"), ("a1", "k1/u"), ("a1", "k1/u"), ("a1", ""), ("b2", "k9/")]
    ):
        bank.admit(new_example(number, tenant, contributor=name)).result(5)
    assert contributors(db, "a1") == ["k1/u", "k2/"]
    assert contributors(db, "b2") == ["k9/"] and contributors(db, "c3") == []
    exact = ExactCache(db, ttl_s=60, memory_bytes=1000, disk_bytes=10**6, max_entry_bytes=10**5)
    exact.put(b"k" * 32, "c3", answer()).result(5)
    assert tenants(db) == ["a1", "b2", "c3"]
    db.close()
