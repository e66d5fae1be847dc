"""The books over the admin API: the same sums as the store's, with the names of keys and tenants."""

from __future__ import annotations

import time
from urllib.parse import quote

from admin.api.schemas import SCHEMAS
from store.decisions.usage import DIMENSIONS, Amounts, Used
from store.people.limits import told
from tests.admin.api.conftest import Program
from tests.admin.api.test_server import check
from tests.admin.site import Site


async def test_usage_is_told_by_what_is_asked_for(pages: Site, viewer: Program) -> None:
    store, now_s = pages.sources.store, time.time()
    key, _ = store.keys.create("acme", "web")
    for model, usd in (("gpt-4o", 0.5), ("o3", 2.0), ("gpt-4o", 0.25)):
        amounts = Amounts(requests=1, prompt_tokens=10, cost_usd=usd)
        store.decisions.usage.book(
            Used(now_s, key.tenant, amounts, key_id=key.id, model=model, end_user="ann")
        ).result(30)
    got = (await viewer("GET", "/api/usage?by=model,key,tenant")).json
    check(got, SCHEMAS["Usage"])
    assert [(row["model"], row["cost_usd"], row["requests"]) for row in got["data"]] == [
        ("o3", 2.0, 1),
        ("gpt-4o", 0.75, 2),
    ]
    assert {(row["key"], row["key_name"], row["tenant_name"]) for row in got["data"]} == {
        (key.id, "web", "acme")
    }
    first = (await viewer("GET", "/api/usage?by=model&limit=1")).json
    second = (await viewer("GET", f"/api/usage?by=model&limit=1&after={first['next']}")).json
    assert [row["model"] for row in first["data"] + second["data"]] == ["o3", "gpt-4o"] and second[
        "next"
    ] is None
    (whole,) = (await viewer("GET", "/api/usage?tenant=acme&user=ann")).json["data"]
    assert (whole["cost_usd"], whole["line"]) == (2.75, "answer")
    assert (await viewer("GET", "/api/usage?tenant=umbrella")).json["data"] == []
    later = quote(told(now_s + 7200) or "")
    assert (await viewer("GET", f"/api/usage?since={later}")).json["data"] == []
    everything = (await viewer("GET", f"/api/usage?by={','.join(DIMENSIONS)}&key={key.id}")).json
    check(everything, SCHEMAS["Usage"])
    assert len(everything["data"]) == 2
