"""Keys over the admin API: made, read, changed, rotated and revoked; each change is in the audit log."""

from __future__ import annotations

from typing import Any

from admin.api.schemas import SCHEMAS
from store.people.configured import ConfiguredKey
from tests.admin.api.conftest import Program
from tests.admin.api.test_server import check
from tests.admin.site import Site

LIMITS = {"models": ["gpt-4*"], "requests_per_minute": 60, "budgets": [{"usd": 5, "per": "day"}]}


async def test_a_key_s_life(pages: Site, operator: Program) -> None:
    store = pages.sources.store
    body = {"tenant": "acme", "name": "web", "limits": LIMITS, "expires_at": "2031-01-31T00:00:00+01:00"}
    made = await operator("POST", "/api/keys", body)
    assert made.status == 201 and made.headers["Location"] == f"/api/keys/{made.json['id']}"
    check(made.json, SCHEMAS["KeyWithSecret"])
    secret, one = made.json.pop("secret"), made.headers["Location"]
    found = store.keys.lookup(secret)
    assert found is not None and found.limits.requests_per_minute == 60 and found.source == "api"
    assert made.json["limits"] == LIMITS and made.json["expires_at"] == "2031-01-30T23:00:00Z"
    assert (await operator("GET", one)).json == made.json

    patch = {"limits": {"requests_per_minute": None, "concurrency": 2}, "each_user": {"concurrency": 1}}
    for _ in range(2):
        patched = await operator("PATCH", one, patch)
        assert patched.json["limits"] == {
            "models": ["gpt-4*"],
            "budgets": LIMITS["budgets"],
            "concurrency": 2,
        }
    assert patched.json["expires_at"] == made.json["expires_at"]

    for _ in range(2):
        put = await operator("PUT", one, {"name": "app", "partition": "tenant"})
        check(put.json, SCHEMAS["Key"])
        assert (put.json["limits"], put.json["expires_at"], put.json["name"]) == ({}, None, "app")
    assert (await operator("PUT", one, put.json)).json == put.json, "what was read can be put back"

    rotated = await operator("POST", one + "/rotate", {"grace_s": 3600})
    check(rotated.json, SCHEMAS["KeyWithSecret"])
    assert rotated.json["rotated_until"] is not None
    assert store.keys.lookup(secret) is not None and store.keys.lookup(rotated.json["secret"]) is not None

    for _ in range(2):
        revoked = await operator("DELETE", one)
        assert revoked.status == 200 and revoked.json["revoked_at"] is not None
    assert store.keys.lookup(secret) is None and store.keys.lookup(rotated.json["secret"]) is None
    assert (await operator("POST", one + "/rotate")).status == 400

    rows = [row for row in store.audit.page() if row.outcome == "done"][::-1]
    assert [row.action for row in rows[:2]] == ["keys/create", "keys/edit"]
    assert {row.user for row in rows} == {"token:terraform"} and {row.target for row in rows} == {
        made.json["id"]
    }
    assert rows[0].detail["limits"] == {"new": LIMITS}
    assert rows[1].detail["limits"]["old"] == LIMITS and rows[1].detail["limits"]["new"]["concurrency"] == 2
    assert secret not in str(rows) and rotated.json["secret"] not in str(rows)


async def test_keys_are_listed_by_pages_and_by_tenant(pages: Site, viewer: Program) -> None:
    keys = pages.sources.store.keys
    made = [keys.create("acme" if n % 2 else "umbrella", f"key {n}")[0].id for n in range(5)]
    keys.revoke(made[1]).result(30)
    got, path = [], "/api/keys?limit=2"
    while path:
        page = (await viewer("GET", path)).json
        check(page, SCHEMAS["Keys"])
        got += [key["id"] for key in page["data"]]
        path = f"/api/keys?limit=2&after={page['next']}" if page["next"] else ""
    assert got == made
    acme = (await viewer("GET", "/api/keys?tenant=acme&state=active")).json
    assert [key["id"] for key in acme["data"]] == [made[3]] and acme["next"] is None


async def test_a_client_s_own_secret_is_kept_and_belongs_to_one_key(pages: Site, operator: Program) -> None:
    theirs = "sk-from-another-gateway-0123"
    made = await operator("POST", "/api/keys", {"secret": theirs})
    assert made.status == 201 and pages.sources.store.keys.lookup(theirs) is not None
    again = await operator("POST", "/api/keys", {"secret": theirs})
    assert (again.status, again.json["code"]) == (409, "conflict") and theirs not in str(again.json)
    token = await operator("POST", "/api/keys", {"secret": operator.token})
    assert token.status == 400 and operator.token not in str(token.json)
    short = await operator("POST", "/api/keys", {"secret": "hunter2"})
    assert short.status == 400 and "hunter2" not in str(short.json)


async def test_a_key_of_the_configuration_is_changed_there(pages: Site, operator: Program) -> None:
    store = pages.sources.store
    store.configured.reconcile([ConfiguredKey("web", "acme", "web-secret-0123456789")], [])
    one = f"/api/keys/{store.keys.list()[0].id}"
    for method, path in (("PATCH", one), ("PUT", one), ("DELETE", one), ("POST", one + "/rotate")):
        got = await operator(method, path, {})
        assert (got.status, got.json["code"]) == (409, "conflict") and "configuration" in got.json["detail"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"limits": {"budgets": [{"usd": -1, "per": "day"}]}}, "limits.budgets[0].usd"),
    ({"limits": {"budgets": [{"usd": 1, "per": "year"}]}}, "limits.budgets[0].per"),
    ({"limits": {"models": [""]}}, "limits.models"),
    ({"limits": {"time_zone": "Mars/Olympus"}}, "limits.time_zone"),
    ({"limits": {"speed": 1}}, "'speed'"),
    ({"limits": []}, "limits is []"),
    ({"each_user": {"concurrency": 0}}, "each_user.concurrency"),
    ({"expires_at": "soon"}, "expires_at"),
    ({"expires_at": 5}, "expires_at"),
    ({"expires_at": "9999-12-31T23:59:59-23:59"}, "expires_at"),
    ({"partition": "world"}, "partition"),
    ({"users_required": "yes"}, "users_required"),
    ({"name": ""}, "name"),
    ({"name": 5}, "name"),
    ({"name": "x" * 100_000}, "name"),
    ({"colour": "red"}, "'colour'"),
]


async def test_what_cannot_be_right_is_refused_by_name(operator: Program) -> None:
    one = "/api/keys/" + (await operator("POST", "/api/keys", {"tenant": "acme"})).json["id"]
    for body, told in REFUSED:
        for method, path in (("POST", "/api/keys"), ("PATCH", one), ("PUT", one)):
            got = await operator(method, path, body)
            assert (got.status, got.json["code"]) == (400, "invalid"), (method, got.json)
            assert told in got.json["detail"] and len(got.json["detail"]) < 1000
    for name, value in (("id", "key_other"), ("tenant", "umbrella"), ("source", "cli"), ("prefix", "us-")):
        got = await operator("PATCH", one, {name: value})
        assert got.status == 400 and "cannot be changed" in got.json["detail"]
    assert len((await operator("GET", "/api/keys")).json["data"]) == 1
