"""Filters of a gateway with many tenants: pages stay small, and what is chosen is among what is offered."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from admin.choices import MOST_CHOICES, offered
from tests.admin.site import site
from tests.store.rows import request_record

PAGES = (
    "/overview",
    "/trends",
    "/cost",
    "/requests",
    "/sessions",
    "/runs",
    "/datasets",
    "/examples",
    "/cache",
)


def test_the_first_are_offered_and_the_chosen_one() -> None:
    pairs = [(str(n), "name") for n in range(MOST_CHOICES + 50)]
    assert offered(pairs[:3], "2") == pairs[:3]
    assert offered(pairs, pairs[220][0]) == [*pairs[:MOST_CHOICES], pairs[220]]
    assert offered([{"id": id} for id, _ in pairs], "3") == [{"id": id} for id, _ in pairs[:MOST_CHOICES]]


@pytest.mark.slow
async def test_with_many_tenants_no_list_of_options_is_long(tmp_path: Path) -> None:
    async with site(tmp_path) as pages:
        store, many = pages.sources.store, MOST_CHOICES + 60
        keys = [store.keys.create(f"tenant {n:03}", "app")[0] for n in range(many)]
        writes = [
            store.decisions.requests.record(
                request_record(n, id=f"{n:024x}", tenant=key.tenant, key_id=key.id, started_at_s=time.time())
            )
            for n, key in enumerate(keys)
        ]
        for write in writes:
            assert write is not None
            write.result(60)
        last = max(key.tenant for key in keys)
        operator = await pages.person("operator")
        for path in PAGES:
            page = (await operator.get(f"{path}?tenant={last}")).text
            for select in page.split("<select")[1:]:
                assert select.partition("</select>")[0].count("<option") <= MOST_CHOICES + 3, path
            if path not in ("/examples", "/cache"):
                assert f'<option value="{last}" selected>' in page, path
        rows = (await operator.get("/datasets.csv")).text
        assert rows.count("tenant ") == many, "the file has every tenant"


async def test_what_deleted_tenants_left_is_no_tenant_to_import_into(tmp_path: Path) -> None:
    async with site(tmp_path) as pages:
        operator = await pages.person("operator")
        assert "Deleted tenants" not in (await operator.get("/datasets")).text
        line = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'
        got = await operator.post("/datasets/import", {"tenant": "deleted", "lines": line})
        assert got.status == 400
