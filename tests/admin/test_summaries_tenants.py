"""Tenants and keys: a key is seen once, a revoked one is worth nothing, use is counted."""

from __future__ import annotations

import asyncio
import html
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from admin.summaries.tenants import tenants
from learning.bank.left_behind import left_behind
from tests.admin.site import Site, site
from tests.store.rows import new_example, request_record

assert tenants, "asked for over HTTP below"


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


async def test_a_keys_secret_is_shown_once_and_nowhere_else(pages: Site) -> None:
    operator = await pages.person("operator")
    shown = (await operator.post("/tenants/create-key", {"tenant": "acme", "name": "<b>app</b>"})).text
    found = re.search(r'class="secret">(us-[\w-]+)<', shown)
    assert found and "<b>app" not in shown
    key = pages.sources.store.keys.lookup(found[1])
    assert key is not None and key.tenant_name == "acme"
    for path in ("/tenants", "/tenants.json", "/audit.json"):
        assert found[1] not in (await operator.get(path)).text
    assert (await operator.post("/tenants/revoke-key", {"key": key.id})).status == 303
    assert pages.sources.store.keys.lookup(found[1]) is None
    (tenant,) = (await operator.get("/tenants.json")).json["tenants"]
    assert tenant["name"] == "acme" and tenant["keys"][0]["revoked_at_s"] is not None


async def test_the_first_key_says_what_it_leaves_behind_as_the_command_does(pages: Site) -> None:
    store = pages.sources.store
    await asyncio.to_thread(store.examples.add(new_example(1, "f" * 32)).result, 60)
    operator = await pages.person("operator")
    said = await asyncio.to_thread(left_behind, store, "acme")
    assert said[0].startswith("Left behind: 1 examples and 0 exact answers") and len(said) == 3
    shown = await operator.post("/tenants/create-key", {"tenant": "acme"})
    page = html.unescape(shown.text)
    assert all(line in page for line in said), page
    second = await operator.post("/tenants/create-key", {"tenant": "acme"})
    assert second.status == 200 and "Left behind" not in second.text


async def test_use_is_counted_by_tenant_and_by_key(pages: Site) -> None:
    key, _ = pages.sources.store.keys.create("acme", "app")
    for i in range(5):
        record = request_record(
            i, tenant=key.tenant, key_id=key.id if i < 3 else "", started_at_s=time.time() - 5, cost_usd=0.5
        )
        pages.sources.store.decisions.requests.record(record).result(60)
    viewer = await pages.person("viewer")
    (tenant,) = (await viewer.get("/tenants.json")).json["tenants"]
    assert (tenant["requests"], tenant["cost_usd"], tenant["tokens"]) == (5, pytest.approx(2.5), 750)
    assert (tenant["keys"][0]["requests"], tenant["keys"][0]["tokens"]) == (3, 450)


async def test_a_key_without_a_tenant_is_refused(pages: Site) -> None:
    operator = await pages.person("operator")
    got = await operator.post("/tenants/create-key", {"tenant": ""}, Accept="application/json")
    assert got.status == 409 and "tenant name" in got.json["error"]["message"]
    got = await operator.post("/tenants/revoke-key", {"key": "key_none"}, Accept="application/json")
    assert got.status == 409


async def test_without_keys_the_page_says_that_anybody_is_let_in(pages: Site) -> None:
    viewer = await pages.person("viewer")
    assert "every request needs one" in (await viewer.get("/tenants")).text
    pages.sources.store.keys.create("acme", "app")
    assert "every request needs one" not in (await viewer.get("/tenants")).text
