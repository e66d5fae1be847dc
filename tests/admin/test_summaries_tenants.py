"""Tenants and keys: one table, a page each; a key is seen once, has limits, is rotated and revoked; a tenant is deleted."""

from __future__ import annotations

import asyncio
import html
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from learning.bank.left_behind import left_behind
from store.people.allowance import NANO, Booking, Window, Worker
from store.people.configured import ConfiguredKey
from store.people.limits import Budget, Limits, Terms
from store.sums import DELETED
from tests.admin.site import Site, site
from tests.store.rows import choice_record, new_example, outcome_record, request_record


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


def version_in(page: str) -> str:
    found = re.search(r'name="version" value="([0-9a-z]+)"', page)
    assert found, page[:500]
    return found[1]


async def asked(pages: Site, number: int, **changes: Any) -> None:
    record = request_record(number, **{"started_at_s": time.time() - 5, **changes})
    await asyncio.to_thread(pages.sources.store.decisions.requests.record(record).result, 60)


async def test_a_keys_secret_is_shown_once_and_nowhere_else(pages: Site) -> None:
    operator = await pages.person("operator")
    page = (await operator.post("/tenants/create-key", {"tenant": "acme", "name": "<b>app</b>"})).text
    found = re.search(r'class="secret">(us-[\w-]+)<', page)
    assert found and "<b>app" not in page
    key = pages.sources.store.keys.lookup(found[1])
    assert key is not None and key.tenant_name == "acme"
    for path in (
        "/tenants",
        "/tenants.json",
        "/tenants.csv",
        f"/tenants/{key.tenant}",
        f"/keys/{key.id}",
        "/audit",
    ):
        answer = await operator.get(path)
        assert answer.status == 200 and found[1] not in answer.text, path
    assert (await operator.post("/tenants/revoke-key", {"key": key.id})).status == 303
    assert pages.sources.store.keys.lookup(found[1]) is None
    (tenant,) = (await operator.get("/tenants.json")).json["tenants"]
    assert tenant["name"] == "acme" and tenant["keys"] == 0
    (listed,) = (await operator.get(f"/tenants/{key.tenant}.json")).json["keys"]
    assert listed["state"] == "revoked" and listed["revoked_at_s"] is not None


async def test_the_first_key_says_what_it_leaves_behind_as_the_command_does(pages: Site) -> None:
    store = pages.sources.store
    await asyncio.to_thread(store.examples.add(new_example(1, "f" * 32)).result, 60)
    operator = await pages.person("operator")
    said = await asyncio.to_thread(left_behind, store, "acme")
    assert said[0].startswith("Left behind: 1 examples and 0 exact answers") and len(said) == 3
    page = html.unescape((await operator.post("/tenants/create-key", {"tenant": "acme"})).text)
    assert all(line in page for line in said), page
    second = (await operator.post("/tenants/create-key", {"tenant": "acme"})).text
    assert "Left behind" not in second


async def test_use_is_counted_by_tenant_and_by_key(pages: Site) -> None:
    key, _ = pages.sources.store.keys.create("acme", "app")
    for i in range(5):
        await asked(pages, i, tenant=key.tenant, key_id=key.id if i < 3 else "", cost_usd=0.5)
    viewer = await pages.person("viewer")
    for span in ("day", "week", "month"):
        (tenant,) = (await viewer.get(f"/tenants.json?span={span}")).json["tenants"]
        assert (tenant["requests"], tenant["cost_usd"], tenant["tokens"]) == (5, pytest.approx(2.5), 750)
    one = (await viewer.get(f"/tenants/{key.tenant}.json")).json
    assert one["total"]["requests"] == 5 and one["models"][0]["model"] == "gpt-4o"
    assert (one["keys"][0]["requests"], one["keys"][0]["tokens"]) == (3, 450)
    assert (await viewer.get(f"/keys/{key.id}.json")).json["models"][0]["cost_usd"] == pytest.approx(1.5)


async def test_what_a_tenant_saved_stands_beside_the_quality_it_was_saved_at(pages: Site) -> None:
    key, _ = pages.sources.store.keys.create("acme", "app")
    viewer = await pages.person("viewer")
    large = {"tenant": key.tenant, "model": "demo", "reference_cost_usd": 0.4, "cost_usd": 0.4}
    await asked(pages, 1, engine="large", **large)
    shown = (await viewer.get(f"/tenants/{key.tenant}")).text
    assert "Saved by routing" in shown and "not measured" not in shown, "nothing was offloaded"
    small = {**large, "engine": "small", "cost_usd": 0.1}
    for number in range(2, 5):
        await asked(pages, number, **small)
    assert "quality not measured" in (await viewer.get(f"/tenants/{key.tenant}")).text
    for number, quality in ((2, 1.0), (3, 0.5)):
        choice = choice_record(number, tenant=key.tenant, model="demo", engine="small")
        outcome = outcome_record(
            number, tenant=key.tenant, source="judge", engine="small", quality=quality, at_s=time.time()
        )
        pages.sources.store.decisions.choices.record(choice).result(60)
        pages.sources.store.outcomes.note(outcome).result(60)
    got = (await viewer.get(f"/tenants/{key.tenant}.json")).json
    assert got["offloaded"] == 3 and got["quality"]["offloaded"]["judge"]["mean"] == pytest.approx(0.75)
    shown = (await viewer.get(f"/tenants/{key.tenant}")).text
    assert "2 judged)" in shown and "quality not measured" not in shown


async def test_tenants_are_searched_sorted_and_shown_a_page_at_a_time(pages: Site) -> None:
    store = pages.sources.store
    for number in range(60):
        store.keys.create(f"tenant {number:02}", f"app of {number:02}")
    busy = store.keys.tenant_named("tenant 42")
    await asked(pages, 1, tenant=busy)
    viewer = await pages.person("viewer")

    async def names(query: str) -> list[str]:
        got = await viewer.get(f"/tenants.json{query}")
        assert got.status == 200, got.text
        return [one["name"] for one in got.json["tenants"]]

    assert (await names(""))[0] == "tenant 42" and len(await names("")) == 50
    assert len(await names("?page=2")) == 10 and await names("?page=3") == []
    assert (await names("?sort=name"))[:2] == ["tenant 00", "tenant 01"]
    assert (await names("?sort=name&order=desc"))[0] == "tenant 59"
    assert await names("?q=TENANT+07") == ["tenant 07"] and await names("?q=app+of+07") == ["tenant 07"]
    assert await names(f"?q={busy}") == ["tenant 42"] and await names("?q=nothing") == []
    page = (await viewer.get("/tenants?q=tenant&sort=name")).text
    assert "No further tenant" in (await viewer.get("/tenants?page=3")).text
    assert "page 1 of 2" in page and 'aria-sort="ascending"' in page and "page=2" in page
    assert (await viewer.get("/tenants?sort=shoe")).status == 400
    csv = (await viewer.get("/tenants.csv?q=tenant+07")).text
    assert "id,name,state" in csv.splitlines()[0] and "tenant 07" in csv.splitlines()[1]


async def test_a_key_is_made_with_limits_changed_and_shows_its_use(pages: Site) -> None:
    store, operator = pages.sources.store, await pages.person("operator")
    fields = {
        "tenant": "acme",
        "name": "app",
        "models": "gpt-4*\no3",
        "requests_per_minute": "60",
        "budget_day": "5",
        "budget_month": "100",
        "time_zone": "Europe/Berlin",
        "expires": "2031-01-31T12:00",
        "partition": "user",
        "users_required": "yes",
        "user_concurrency": "2",
    }
    assert (await operator.post("/tenants/create-key", fields)).status == 200
    (key,) = store.keys.list()
    budgets = (Budget(5.0, "day"), Budget(100.0, "month"))
    assert key.limits == Limits(("gpt-4*", "o3"), (), 60, None, None, None, budgets, "Europe/Berlin")
    assert key.each_user == Limits(concurrency=2) and key.partition == "user" and key.users_required
    assert key.expires_at_s == 1927627200.0, "in the pages' time zone"

    now_s = time.time()
    worker = Worker("w1", "boot", now_s + 60)
    day = Window(f"key:{key.id}", "usd:day", int(now_s) - 60, now_s + 3600)
    store.allowances.join(worker).result(30)
    store.allowances.lease(
        worker, 0, day, limit=5 * NANO, need=1, wish=2 * NANO, parts=1, now_s=now_s
    ).result(30)
    store.allowances.book(worker, [Booking(day, 4 * NANO, 0, 0)]).result(30)
    use = {row["name"]: row for row in (await operator.get(f"/keys/{key.id}.json")).json["use"]}
    assert use["Budget per day"] | {"ends_at_s": 0} == {
        "name": "Budget per day",
        "unit": "usd",
        "limit": 5.0,
        "used": 4.0,
        "share": 0.8,
        "ends_at_s": 0,
    }
    assert use["Requests per minute"]["used"] == 0 and use["Budget per month"]["share"] == 0.0

    page = (await operator.get(f"/keys/{key.id}")).text
    change = fields | {"version": version_in(page), "budget_day": "", "name": "renamed", "models": ""}
    got = await operator.post(f"/keys/{key.id}/edit", change)
    assert got.status == 303, got.text
    after = store.keys.get(key.id)
    assert after.name == "renamed" and after.limits.budgets == budgets[1:] and after.limits.models == ()
    row = store.audit.page(limit=1)[0]
    assert row.detail["name"] == {"old": "app", "new": "renamed"}, "old and new values"
    assert row.detail["limits"]["old"]["models"] == ["gpt-4*", "o3"]


async def test_a_refused_form_comes_back_filled_with_the_error_at_its_field(pages: Site) -> None:
    operator = await pages.person("operator")
    key, _ = pages.sources.store.keys.create("acme", "app")
    version = version_in((await operator.get(f"/keys/{key.id}")).text)
    sent = {"version": version, "name": "renamed", "time_zone": "UTC"}
    for wrong, field in (
        ({"requests_per_minute": "0,5"}, "requests_per_minute"),
        ({"concurrency": "1.5"}, "concurrency"),
        ({"time_zone": "Nowhere"}, "time_zone"),
        ({"user_models": "x" * 300}, "user_models"),
        ({"endpoints": "chat"}, "endpoints"),
        ({"expires": "soon"}, "expires"),
    ):
        got = await operator.post(f"/keys/{key.id}/edit", sent | wrong, Referer=f"{pages.url}/keys/{key.id}")
        assert got.status == 400 and 'value="renamed"' in got.text, (wrong, got.text[:300])
        at = got.text.index('id="field-error"')
        assert f'name="{field}"' in got.text[at - 700 : at + 100], wrong
    assert pages.sources.store.keys.get(key.id) == key


async def test_of_two_operators_at_one_form_the_second_is_told(pages: Site) -> None:
    operator = await pages.person("operator")
    store = pages.sources.store
    key, _ = store.keys.create("acme", "app")
    url = f"/tenants/{key.tenant}"
    for path, name in ((f"/keys/{key.id}", "name"), (url, "region")):
        version = version_in((await operator.get(path)).text)
        assert (await operator.post(f"{path}/edit", {"version": version, name: "first"})).status == 303
        second = await operator.post(f"{path}/edit", {"version": version, name: "second"})
        assert second.status == 409 and "Somebody else has changed this meanwhile" in second.text
        assert 'value="second"' in second.text, "what was sent is not lost"
        again = await operator.post(f"{path}/edit", {"version": version_in(second.text), name: "second"})
        assert again.status == 303
    assert store.keys.get(key.id).name == "second" and store.tenant_records.named("acme").region == "second"


async def test_a_rotated_key_has_another_secret_and_its_old_one_for_a_while(pages: Site) -> None:
    operator = await pages.person("operator")
    key, old = pages.sources.store.keys.create("acme", "app")
    page = (await operator.post(f"/keys/{key.id}/rotate", {"grace_h": "1"})).text
    found = re.search(r'class="secret">(us-[\w-]+)<', page)
    assert found and "The old secret is taken until" in page
    lookup = pages.sources.store.keys.lookup
    assert lookup(found[1]) is not None and lookup(old) is not None
    page = (await operator.post(f"/keys/{key.id}/rotate", {"grace_h": "0"})).text
    assert "refused within a second" in page and lookup(old) is None and lookup(found[1]) is None
    assert (await operator.post("/keys/key_none/rotate", {})).status == 404


async def test_a_tenants_limits_are_laid_down_and_its_keys_refused_and_taken_again(pages: Site) -> None:
    operator, store = await pages.person("operator"), pages.sources.store
    key, secret = store.keys.create("acme", "app")
    url = f"/tenants/{key.tenant}"
    version = version_in((await operator.get(url)).text)
    fields = {"version": version, "budget_month": "50", "texts_days": "7", "time_zone": "UTC"}
    assert (await operator.post(f"{url}/edit", fields)).status == 303
    record = store.tenant_records.named("acme")
    assert record.limits.budgets == (Budget(50.0, "month"),) and record.retention.texts_days == 7
    (row,) = (await operator.get("/tenants.json")).json["tenants"]
    assert (row["limits"], row["used_share"]) == (1, 0.0)
    assert (await operator.post(f"{url}/close", {"closed": "yes"})).status == 303
    assert store.keys.lookup(secret) is None
    assert (await operator.get("/tenants.json")).json["tenants"][0]["state"] == "closed"
    assert (await operator.post(f"{url}/close", {"closed": "no"})).status == 303
    assert store.keys.lookup(secret) is not None


async def test_a_tenant_is_deleted_by_its_typed_name_and_nothing_else_changes(pages: Site) -> None:
    """Its key said "active", Saved rose, and nobody knew who had done it."""
    operator, store = await pages.person("operator"), pages.sources.store
    key, secret = store.keys.create("acme", "app")
    other, _ = store.keys.create("umbrella", "app")
    for number, tenant in enumerate((key.tenant, key.tenant, other.tenant)):
        await asked(
            pages, number, tenant=tenant, key_id=key.id, model="demo", reference_cost_usd=1.0, cost_usd=0.25
        )
    for tenant in (key.tenant, other.tenant):
        judged = outcome_record(1, tenant=tenant, source="judge", cost_usd=0.125, at_s=time.time())
        await asyncio.to_thread(store.outcomes.note(judged).result, 60)
        await asyncio.to_thread(store.decisions.choices.record(choice_record(1, tenant=tenant)).result, 60)
    store.artifacts.publish("bandit", key.tenant, "demo", b"weights", metrics={})
    before = (await operator.get("/overview.json")).json
    url = f"/tenants/{key.tenant}"
    preview = (await operator.get(f"{url}/delete.json")).json
    assert preview["held"] | {} == dict.fromkeys(preview["held"], 0) | {
        "requests": 2,
        "choices": 1,
        "outcomes": 1,
        "versions": 1,
    }
    assert [one["id"] for one in preview["keys"]] == [key.id]
    refused = await operator.post(f"{url}/delete", {"name": "Acme"})
    assert refused.status == 400 and "exactly so" in refused.text
    assert store.keys.lookup(secret) is not None
    stated = await operator.post(f"{url}/delete", {"name": "acme"})
    assert stated.status == 200 and "Statement of deletion" in stated.text and "tenant acme" in stated.text
    assert store.keys.lookup(secret) is None and store.keys.get(key.id).revoked_at_s is not None
    assert "is deleted: 1 keys revoked" in html.unescape(stated.text)
    rows = {one["name"]: one for one in (await operator.get("/tenants.json")).json["tenants"]}
    assert set(rows) == {"umbrella", "Deleted tenants"} and rows["Deleted tenants"]["requests"] == 2
    after = (await operator.get("/overview.json")).json
    for figure in ("requests", "kinds"):
        assert after[figure] == before[figure], figure
    for figure in ("saved_usd", "always_large_usd", "judging_usd", "paid_usd"):
        assert after["money"][figure] == pytest.approx(before["money"][figure]), figure
    assert (await operator.get(f"/keys/{key.id}.json")).json["state"] == "revoked"
    gone = await operator.get(url)
    assert gone.status == 404 and "was deleted" in gone.text
    row = store.audit.page(limit=1)[0]
    assert (row.action, row.target, row.detail["keys"]) == (f"{'/tenants/{tenant}/delete'}", key.tenant, 1)
    deleted = (await operator.get(f"/tenants/{DELETED}.json")).json
    assert deleted["total"]["requests"] == 2 and deleted["deleted"]
    assert (await operator.get(f"/tenants/{DELETED}/delete")).status == 404
    assert (await operator.post(f"/tenants/{DELETED}/delete", {"name": DELETED})).status == 404


async def test_what_the_configuration_lists_is_changed_and_deleted_there(pages: Site) -> None:
    operator, store = await pages.person("operator"), pages.sources.store
    store.configured.reconcile([ConfiguredKey("web", "acme", "a-secret-of-sixteen")], [])
    (key,) = store.keys.list()
    page = (await operator.get(f"/keys/{key.id}")).text
    assert "kept in the configuration" in page and f"/keys/{key.id}/edit" not in page
    assert "keys.web" in (await operator.get(f"/tenants/{key.tenant}/delete")).text
    got = await operator.post(f"/tenants/{key.tenant}/delete", {"name": "acme"})
    assert got.status == 409 and "take that out of it" in got.text
    assert store.keys.get(key.id).revoked_at_s is None


async def test_a_key_without_a_tenant_or_with_an_ids_name_is_refused(pages: Site) -> None:
    operator = await pages.person("operator")
    for name, said in (("", "tenant is ''"), ("id:" + "0" * 32, "read as a tenant's id")):
        got = await operator.post("/tenants/create-key", {"tenant": name}, Accept="application/json")
        assert got.status == 400 and said in got.json["error"]["message"]
    got = await operator.post("/tenants/revoke-key", {"key": "key_none"}, Accept="application/json")
    assert got.status == 404
    assert (await operator.get("/tenants/none")).status == 404 and (
        await operator.get("/keys/none")
    ).status == 404


async def test_without_keys_the_page_says_that_anybody_is_let_in(pages: Site) -> None:
    viewer = await pages.person("viewer")
    assert "every request needs one" in (await viewer.get("/tenants")).text
    pages.sources.store.keys.create("acme", "app")
    assert "every request needs one" not in (await viewer.get("/tenants")).text


async def test_a_viewer_sees_and_changes_nothing(pages: Site) -> None:
    viewer = await pages.person("viewer")
    key, _ = pages.sources.store.keys.create("acme", "app", terms=Terms(limits=Limits(concurrency=1)))
    for path in (f"/tenants/{key.tenant}", f"/keys/{key.id}"):
        page = await viewer.get(path)
        assert "Understudy 0." in page.text, "the footer names the gateway's version"
        assert page.status == 200 and "/edit" not in page.text and "/delete" not in page.text
    for path in (f"/tenants/{key.tenant}/delete", f"/keys/{key.id}/rotate", f"/tenants/{key.tenant}/edit"):
        assert (await viewer.post(path, {"name": "acme"})).status == 403
    assert (await viewer.get(f"/tenants/{key.tenant}/delete")).status == 403
