"""Tenants over the admin API."""

from __future__ import annotations

from urllib.parse import quote

from admin.api.schemas import SCHEMAS
from tests.admin.api.conftest import Program
from tests.admin.api.test_server import check
from tests.admin.site import Site


async def test_a_tenant_s_life(pages: Site, operator: Program) -> None:
    store = pages.sources.store
    _, secret = store.keys.create("acme & sons/eu", "web")
    one = "/api/tenants/" + quote("acme & sons/eu", safe="")
    body = {
        "limits": {"budgets": [{"usd": 100, "per": "month"}]},
        "region": "eu",
        "retention": {"texts_days": 7},
    }
    made = await operator("PUT", one, body)
    assert made.status == 201 and made.json["name"] == "acme & sons/eu"
    check(made.json, SCHEMAS["Tenant"])
    again = await operator("PUT", one, body)
    assert (again.status, again.json) == (200, made.json)
    found = store.keys.found(secret)
    assert found is not None and found.tenant is not None and found.tenant.region == "eu"

    patch = {"retention": {"rows_days": 30, "texts_days": None}, "limits": {"concurrency": 3}}
    patched = await operator("PATCH", one, patch)
    assert patched.json["retention"] == {"rows_days": 30}
    assert patched.json["limits"] == {**body["limits"], "concurrency": 3}
    assert (await operator("GET", one)).json == patched.json

    closed = [(await operator("DELETE", one)).json for _ in range(2)]
    assert closed[0] == closed[1] and closed[0]["closed"] is True
    assert store.keys.lookup(secret) is None
    assert (await operator("PATCH", one, {"closed": False})).json["closed_at"] is None
    assert store.keys.lookup(secret) is not None
    actions = [row.action for row in store.audit.page()][::-1]
    assert actions[:3] == ["tenants/put", "tenants/put", "tenants/edit"]


async def test_tenants_are_listed_by_pages(operator: Program) -> None:
    for name in ("c", "a", "b"):
        await operator("PUT", f"/api/tenants/{name}", {"closed": name == "b"})
    first = (await operator("GET", "/api/tenants?limit=2")).json
    check(first, SCHEMAS["Tenants"])
    second = (await operator("GET", f"/api/tenants?limit=2&after={first['next']}")).json
    assert [one["name"] for one in first["data"] + second["data"]] == ["a", "b", "c"]
    assert second["next"] is None and first["data"][1]["closed"] is True


async def test_what_cannot_be_right_is_refused_by_name(operator: Program) -> None:
    await operator("PUT", "/api/tenants/known", {})
    for body, told in (
        ({"region": 5}, "region"),
        ({"region": "x" * 100}, "region"),
        ({"closed": "yes"}, "closed"),
        ({"retention": {"texts_days": -1}}, "retention.texts_days"),
        ({"retention": {"texts_days": "7"}}, "retention.texts_days"),
        ({"retention": {"pictures_days": 7}}, "pictures_days"),
        ({"retention": 5}, "retention"),
        ({"limits": {"tokens_per_minute": 0}}, "tokens_per_minute"),
        ({"colour": 1}, "colour"),
    ):
        for name in ("known", "new"):
            got = await operator("PUT", f"/api/tenants/{name}", body)
            assert got.status == 400 and told in got.json["detail"], (name, body, got.json)
    assert (await operator("PUT", "/api/tenants/" + "x" * 1000, {})).status == 400
    assert [one["name"] for one in (await operator("GET", "/api/tenants")).json["data"]] == ["known"]
