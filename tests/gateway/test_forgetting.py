"""Forgetting one contributor is not forgetting another, and never nobody in particular."""

from __future__ import annotations

from pathlib import Path

from gateway.contributor import contributor
from gateway.forgetting import Forgetter
from store.memory import Memory
from tests.store.rows import answer, new_example

TENANT, OTHER = "a" * 32, "b" * 32


def test_only_the_named_contributors_examples_go(tmp_path: Path) -> None:
    store = Memory.open(tmp_path)
    whose = [
        (TENANT, "key_1", "ann"),
        (TENANT, "key_2", "ann"),
        (TENANT, "key_2", "ben"),
        (TENANT, None, ""),
        (OTHER, None, "ann"),
    ]
    for number, (tenant, key_id, user) in enumerate(whose):
        name = contributor(store.secret, tenant, key_id, user)
        store.examples.admit(new_example(number, tenant, contributor=name)).result(5)
    for key, tenant in ((b"1" * 32, TENANT), (b"2" * 32, OTHER)):
        store.exact.put(key, tenant, answer()).result(5)
    forgetter = Forgetter(store)
    assert forgetter.contributor(TENANT).examples == 0, "nobody in particular is nobody"
    by_user = forgetter.contributor(TENANT, user="ann", purge=True)
    assert (by_user.examples, by_user.answers, by_user.requests) == (2, 0, 0)
    assert forgetter.contributor(TENANT, key_id="key_2").examples == 1
    assert store.examples.count(TENANT) == 1 and store.examples.count(OTHER) == 1
    assert store.exact.get(b"1" * 32, 1001.0) is None and store.exact.get(b"2" * 32, 1001.0) is not None
    assert forgetter.tenant(TENANT).examples == 1 and forgetter.erase()
    store.close()
