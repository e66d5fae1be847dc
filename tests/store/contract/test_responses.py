"""Kept responses: one tenant's only, for thirty days, and gone with whoever they were given to."""

from __future__ import annotations

import pytest

from store import Store
from store.answers.responses import KEPT_S, KeptResponse, KeptResponses

KEPT = KeptResponse(b'{"id":"resp_1"}', b"[]")


def test_a_response_is_its_tenants_until_it_is_deleted(store: Store) -> None:
    kept = store.answers.responses
    kept.put("resp_1", "acme", KEPT).result(30)
    assert kept.get("resp_1", "acme") == KEPT
    assert kept.get("resp_1", "beta") is None and kept.get("resp_2", "acme") is None
    later = KeptResponse(b'{"id":"resp_1","status":"completed"}', b"[1]")
    kept.put("resp_1", "acme", later).result(30)
    assert kept.get("resp_1", "acme") == later
    assert kept.forget("resp_1", "beta").result(30) == 0
    assert kept.forget("resp_1", "acme").result(30) == 1
    assert kept.get("resp_1", "acme") is None


def test_it_goes_after_thirty_days_and_with_its_owner(store: Store) -> None:
    kept = store.answers.responses
    kept.put("old", "acme", KEPT, now_s=0.0).result(30)
    kept.put("hers", "acme", KEPT, contributor="k/ann").result(30)
    kept.put("his", "acme", KEPT, contributor="k/bob").result(30)
    kept.put("theirs", "beta", KEPT).result(30)
    assert (
        kept.get("old", "acme", now_s=KEPT_S - 1) == KEPT
        and kept.get("old", "acme", now_s=KEPT_S + 1) is None
    )
    assert kept.trim(1.0).result(30) == 1
    store.forget_contributors("acme", ["k/ann"])
    assert kept.get("hers", "acme") is None and kept.get("his", "acme") == KEPT
    store.forget_tenant("acme")
    assert kept.get("his", "acme") is None and kept.get("theirs", "beta") == KEPT


@pytest.mark.parametrize("size_bytes", [1000])
def test_the_oldest_make_room(store: Store, size_bytes: int) -> None:
    small = KeptResponses(store._db, b"secret", disk_bytes=10 * size_bytes)
    for n in range(65):
        small.put(f"r{n}", "acme", KeptResponse(b"x" * size_bytes, b"[]"), now_s=1e9 + n).result(30)
    assert small.get("r0", "acme", now_s=1e9) is None
