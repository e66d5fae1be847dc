"""Who may use the admin API, how it refuses, and that its document says what it does."""

from __future__ import annotations

import io
import re
import time
from typing import Any

from admin.api.openapi import DOCUMENT, document
from admin.api.route import ROUTES
from admin.api.schemas import SCHEMAS
from store.people.limits import Limits
from tests.admin.api.conftest import Program
from tests.admin.site import Site


def concrete(path: str) -> str:
    return re.sub(r"\{\w+\}", "one", path)


async def test_only_an_admin_token_opens_it(pages: Site, stranger: Program, operator: Program) -> None:
    store = pages.sources.store
    _, key = store.keys.create("acme", "web")
    spent, over = (store.admin_tokens.create(name, "operator") for name in ("revoked", "over"))
    store.admin_tokens.revoke(spent[0].id)
    person = await pages.person("operator")
    for route in ROUTES:
        path = concrete(route.path)
        for credential in ("", key, spent[1], over[1] + "x", "us-admin-" + "a" * 5000):
            got = await Program(stranger.url, stranger.session, credential)(route.method, path)
            assert (got.status, got.json["code"]) == (401, "token"), (route, credential[:12])
            assert got.headers["WWW-Authenticate"] == "Bearer"
        with_cookie = await Program(pages.url, person.session)(route.method, path)
        assert with_cookie.status == 401
    assert (await operator("GET", "/overview")).status == 303, "a token opens no page"
    assert not [key for key in store.keys.list() if key.revoked_at_s], "nothing was done"


async def test_a_token_is_refused_once_it_is_over(pages: Site, stranger: Program) -> None:
    _, token = pages.sources.store.admin_tokens.create("short", "viewer", time.time() + 0.05)
    program = Program(stranger.url, stranger.session, token)
    while (await program("GET", "/api/keys")).status == 200:
        pass
    assert (await program("GET", "/api/keys")).status == 401


async def test_a_viewer_reads_and_changes_nothing(pages: Site, viewer: Program) -> None:
    for route in ROUTES:
        got = await viewer(route.method, concrete(route.path), {})
        expected = (403,) if route.changes else (200, 404)
        assert got.status in expected, route
    refused = [r for r in pages.sources.store.audit.page() if r.outcome == "refused"]
    assert {r.action for r in refused} == {r.name for r in ROUTES if r.changes}
    assert {r.user for r in refused} == {"token:dashboard"}


async def test_problems_are_told_as_json_and_nothing_breaks(operator: Program, stranger: Program) -> None:
    for method, path, status in (
        ("GET", "/api", 404),
        ("GET", "/api/nothing", 404),
        ("POST", "/api/keys/one", 405),
        ("HEAD", "/api/keys", 405),
        ("GET", "/api/keys/one/rotate", 405),
        ("GET", "/api/keys/key_missing", 404),
        ("DELETE", "/api/keys/key_missing", 404),
        ("GET", "/api/tenants/nobody", 404),
        ("PATCH", "/api/tenants/nobody", 404),
        ("GET", "/api/keys?limit=0", 400),
        ("GET", "/api/keys?limit=1e9", 400),
        ("GET", "/api/keys?after=nothing", 400),
        ("GET", "/api/keys?state=lost", 400),
        ("GET", "/api/usage?by=colour", 400),
        ("GET", "/api/usage?since=yesterday", 400),
        ("GET", "/api/usage?after=x", 400),
    ):
        got = await operator(method, path)
        assert got.status == status and got.content_type == "application/problem+json", (method, path)
        if method != "HEAD":
            check(got.json, SCHEMAS["Problem"])
            assert got.json["status"] == status
    assert "POST" in (await operator("PUT", "/api/keys")).headers["Allow"]
    for body, code in (
        (b"{", "bad_json"),
        (b"[]", "bad_json"),
        (b'{"limits": {"concurrency": 1e309}}', "bad_json"),
    ):
        got = await operator("POST", "/api/keys", data=body)
        assert (got.status, got.json["code"]) == (400, code)
    for big in (300_000, 3_000_000):
        got = await operator("POST", "/api/keys", data=io.BytesIO(b'{"name": "' + b"x" * big + b'"}'))
        assert (got.status, got.json["code"]) == (413, "too_large")


async def test_the_document_lists_exactly_what_is_served_and_needs_no_token(
    pages: Site, stranger: Program
) -> None:
    got = await stranger("GET", "/api/openapi.json")
    assert got.status == 200
    served = {
        (route.method, route.resource.canonical)
        for route in pages.app.app.router.routes()
        if route.resource is not None and route.resource.canonical.startswith("/api/") and route.method != "*"
    }
    listed = {
        (method.upper(), path) for path, operations in got.json["paths"].items() for method in operations
    }
    assert listed == served == {("GET", DOCUMENT), *((route.method, route.path) for route in ROUTES)}
    named = re.findall(r'"#/components/schemas/(\w+)"', str(got.json).replace("'", '"'))
    assert set(named) == set(got.json["components"]["schemas"])
    ids = [one["operationId"] for operations in got.json["paths"].values() for one in operations.values()]
    assert len(set(ids)) == len(ids)


def test_the_schema_of_limits_is_theirs() -> None:
    assert list(SCHEMAS["Limits"]["properties"]) == list(Limits.__dataclass_fields__)
    assert list(document(())["paths"]) == [DOCUMENT]


def check(value: Any, schema: dict[str, Any], where: str = "") -> None:
    """That a value is as its schema says; of JSON Schema, what ours use."""
    if "$ref" in schema:
        schema = SCHEMAS[schema["$ref"].rpartition("/")[2]]
    types = schema.get("type")
    if types is not None:
        types = [types] if isinstance(types, str) else types
        assert any(_is(value, each) for each in types), f"{where} is {value!r}, not {types}"
    assert "enum" not in schema or value in schema["enum"], f"{where} is {value!r}"
    if isinstance(value, dict):
        assert not set(schema.get("required", ())) - set(value), f"{where} lacks some"
        properties = schema.get("properties", {})
        unknown = set(value) - set(properties)
        assert not unknown or schema.get("additionalProperties", True), f"{where} has {unknown}"
        for name in set(value) & set(properties):
            check(value[name], properties[name], f"{where}.{name}")
    if isinstance(value, list):
        for place, each in enumerate(value):
            check(each, schema.get("items", {}), f"{where}[{place}]")


def _is(value: Any, name: str) -> bool:
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    if name in kinds:
        return isinstance(value, kinds[name])
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and (name == "number" or value == int(value))
