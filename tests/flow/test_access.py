"""Who may reach what: models, regions, prices, end users and tenants' own upstream keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import FormData, web

from store.people.limits import Budget, Limits, Terms
from store.records import Key
from tests.flow.line import Asked, Got, Line, Upstream, completion, line, upstream
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPERATOR = "sk-operator-0123456789"
OWN = "sk-own-of-umbrella-0123456789"


@dataclass
class House:
    """A gateway with keys, and all of its upstreams."""

    gate: Line
    operator: Upstream
    eu: Upstream
    us: Upstream
    keys: dict[str, str] = field(default_factory=dict)

    async def key(self, name: str, tenant: str = "acme", **terms: Any) -> dict[str, str]:
        """Headers of a new key."""
        memory = self.gate.gateway.memory
        assert memory is not None
        store = memory.store.keys
        made: tuple[Key, str] = await asyncio.to_thread(store.create, tenant, name, terms=Terms(**terms))
        await until(lambda: store.lookup(made[1]) is not None, "the key known")
        return {"Authorization": f"Bearer {made[1]}"}

    async def get(self, path: str, headers: dict[str, str]) -> Got:
        async with self.gate.session.get(self.gate.url + path, headers=headers) as response:
            return Got(response.status, response.headers.copy(), await response.read())

    @property
    def asked(self) -> int:
        return len(self.operator.asked) + len(self.eu.asked) + len(self.us.asked)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder: Path = tmp_path_factory.mktemp("access")
    async with upstream() as operator, upstream() as eu, upstream() as us:
        eu.says, us.says = "From Europe.", "From America."
        engines = {
            "eu": {
                "base_url": eu.url,
                "region": "eu",
                "price": {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1},
            },
            "us": {"base_url": us.url, "region": "us", "api_key": "sk-us"},
            "beside": {"base_url": operator.url, "api_key": OPERATOR},
            "unused": {"base_url": us.url, "api_key": "sk-us"},
        }
        config = {
            "upstream": {"base_url": operator.url, "api_key": OPERATOR, "region": "us"},
            "engines": engines,
            "models": {
                "both": {"engines": ["eu", "us"]},
                "america": {"engines": ["us"]},
                "europe": {"engines": ["eu"]},
                "claude-*": {"engines": ["us"]},
                "beside": {"engines": ["beside"]},
            },
            "tenants": {
                "umbrella": {"upstream_key": OWN},
                "old-world": {"region": "eu"},
                "together": {"partition": "tenant"},
                "named": {"users_required": True},
            },
            "memory": {"data_dir": str(folder), "examples": {"enabled": False}, "exact": {"sampled": True}},
        }
        async with line(config) as gate:
            yield House(gate, operator, eu, us)


def chat(model: str = "m", text: str = "Q", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


async def heard(request: web.Request, asked: Asked) -> web.StreamResponse:
    return web.json_response({"text": "Hello."})


async def test_a_key_asks_only_for_the_models_it_lists(house: House) -> None:
    key = await house.key("models", limits=Limits(models=("gpt-4*", "both")))
    assert (await house.gate.post("/chat/completions", chat("gpt-4o", "models 1"), key)).status == 200
    assert (await house.gate.post("/chat/completions", chat("both", "models 2"), key)).status == 200
    before = house.asked
    for path, body in (
        ("/chat/completions", chat("america")),
        ("/embeddings", {"model": "ada", "input": "x"}),
        ("/responses", {"model": "o3", "input": "x"}),
        ("/chat/completions", chat("gpt-5" + "x" * 100_000)),
    ):
        refused = await house.gate.post(path, body, key)
        assert refused.status == 403
        assert refused.json["error"]["code"] == "model_not_allowed"
        assert refused.json["error"]["type"] == "permission_error"
    assert house.asked == before
    listed = (await house.get("/models", key)).json["data"]
    assert {model["id"] for model in listed} == {"both"}


async def test_a_key_asks_for_its_models_alone_wherever_a_server_has_an_endpoint(house: House) -> None:
    key = await house.key("servers", limits=Limits(models=("both",)))
    root, before = house.gate.url.removesuffix("/v1"), house.asked
    for path in ("/v1/rerank", "/rerank", "/v2/rerank", "/v1/tokenize", "/classify", "/v2/Score/"):
        for body in ({"model": "america"}, {"query": "x"}):
            async with house.gate.session.post(root + path, json=body, headers=key) as refused:
                assert (refused.status, (await refused.json())["error"]["code"]) == (403, "model_not_allowed")
        async with house.gate.session.post(root + path, json={"model": "america"}) as refused:
            assert refused.status == 401
    assert house.asked == before
    async with house.gate.session.post(root + "/rerank", json={"model": "both"}, headers=key) as got:
        assert got.headers["x-understudy-engine"] == "us"


@pytest.mark.parametrize(
    "before",
    ['name="Model"', 'name="model2"', 'name="file"; filename="a name=model"', 'name="model"; filename="a"'],
)
async def test_no_form_reaches_a_model_that_its_key_may_not_use(house: House, before: str) -> None:
    key = await house.key("forms " + before, limits=Limits(models=("both",)))
    parts = [(before, "america"), ('name="model"', "both")]
    body = (
        "".join(f"--b\r\nContent-Disposition: form-data; {d}\r\n\r\n{v}\r\n" for d, v in parts) + "--b--\r\n"
    )
    headers = key | {"Content-Type": "multipart/form-data; boundary=b"}
    asked = len(house.us.asked)
    house.us.script = heard
    got = await house.gate.post("/audio/transcriptions", body.encode(), headers)
    house.us.script = None
    assert (got.status, got.json["error"]["code"]) == (400, "invalid_form")
    assert len(house.us.asked) == asked


async def test_one_model_is_told_of_to_who_may_use_it(house: House) -> None:
    key = await house.key("one model", limits=Limits(models=("both", "claude-*", "gpt-*")))
    for name in ("both", "claude-3%2Fopus", "claude-3/opus"):
        told = await house.get(f"/models/{name}", key)
        assert (told.status, told.json["id"]) == (200, name.replace("%2F", "/"))
        assert told.json["object"] == "model"
    assert (await house.get("/models/america", key)).status == 403
    asked = len(house.operator.asked)
    await house.get("/models/gpt-4o", key)
    assert len(house.operator.asked) == asked + 1


async def test_what_is_doubtful_is_told_by_readyz(house: House) -> None:
    async with house.gate.session.get(house.gate.url.removesuffix("/v1") + "/readyz") as response:
        told = await response.json()
    assert (response.status, told["status"]) == (200, "ok")
    assert told["warnings"] == [
        "engines.unused is used by nothing: name it under models.*.engines, or take it away"
    ]


async def test_models_of_key_and_tenant_both_hold(house: House) -> None:
    memory = house.gate.gateway.memory
    assert memory is not None
    records = memory.store.tenant_records
    await asyncio.to_thread(records.create, "narrow", Terms(limits=Limits(models=("both", "america"))))
    key = await house.key("inner", "narrow", limits=Limits(models=("america", "europe")))
    found = {
        m: (await house.gate.post("/chat/completions", chat(m), key)).status
        for m in ("america", "europe", "both")
    }
    assert found == {"america": 200, "europe": 403, "both": 403}


async def test_a_form_asks_only_for_the_models_its_key_lists(house: House) -> None:
    key = await house.key("forms", limits=Limits(models=("whisper-*",)))
    before = house.asked
    for fields, status, code in (
        ({"model": "whisper-1"}, 200, ""),
        ({"model": "other"}, 403, "model_not_allowed"),
        ({"model": "whisper-1", "file_id": "file-1"}, 403, "endpoint_not_allowed"),
    ):
        form = FormData(quote_fields=False)
        for name, value in fields.items():
            form.add_field(name, value)
        form.add_field("file", b"RIFF", filename="a.wav", content_type="audio/wav")
        sent = house.gate.session.post(house.gate.url + "/audio/transcriptions", data=form, headers=key)
        house.operator.script = _json
        async with sent as response:
            assert response.status == status, fields
            if code:
                assert (await response.json())["error"]["code"] == code
    twice = b"--x\r\nContent-Disposition: form-data; name=model\r\n\r\nwhisper-1\r\n" * 2 + b"--x--\r\n"
    odd = b'--x\r\nContent-Disposition: form-data; name="mo\\del"\r\n\r\nother\r\n--x--\r\n'
    for raw in (twice, odd):
        headers = {**key, "Content-Type": "multipart/form-data; boundary=x"}
        assert (await house.gate.post("/audio/transcriptions", raw, headers)).status == 400
    for kind in ("text/plain", "application/octet-stream"):
        assert (await house.gate.post("/embeddings", b"{}", {**key, "Content-Type": kind})).status == 415
    house.operator.script = None
    assert house.asked == before + 1


async def test_an_azure_deployment_is_a_model_too(house: House) -> None:
    key = await house.key("azure", limits=Limits(models=("gpt-4*",)))
    origin = house.gate.url.removesuffix("/v1")
    for path, body in (
        ("/v1/deployments/o3/chat/completions?api-version=x", chat("gpt-4o")),
        ("/openai/deployments/o3/chat/completions?api-version=x", {"messages": []}),
        ("/openai/deployments/o3/embeddings?api-version=x", {"model": "gpt-4o", "input": "x"}),
    ):
        async with house.gate.session.post(origin + path, json=body, headers=key) as response:
            assert (await response.json())["error"]["code"] == "model_not_allowed"
    async with house.gate.session.get(origin + "/openai/files?api-version=x", headers=key) as response:
        assert (await response.json())["error"]["code"] == "endpoint_not_allowed"


async def test_endpoints_that_are_listed_are_all_there_are(house: House) -> None:
    key = await house.key("endpoints", limits=Limits(endpoints=("/embeddings", "/files*")))
    house.operator.script = _json
    try:
        assert (await house.gate.post("/embeddings", {"model": "m", "input": "x"}, key)).status == 200
        assert (await house.gate.post("/chat/completions", chat(), key)).status == 403
        assert (await house.get("/files/file-1/content", key)).status == 200
        assert (await house.get("/batches", key)).status == 403
        assert (await house.get("/organization/admin_api_keys", key)).status == 403
    finally:
        house.operator.script = None


async def test_a_tenant_with_a_region_is_answered_there_only(house: House) -> None:
    key = await house.key("region", "old-world")
    for _ in range(2):
        got = await house.gate.post("/chat/completions", chat("both", "regional"), key)
        assert got.json["choices"][0]["message"]["content"] == "From Europe."
    before = len(house.us.asked), len(house.operator.asked)
    for path, body in (
        ("/chat/completions", chat("america")),
        ("/chat/completions", chat("not-listed")),
        ("/embeddings", {"model": "america", "input": "x"}),
        ("/moderations", {"input": "x"}),
        ("/chat/completions", chat("both") | {"stream": True}),
    ):
        headers = (
            {**key, "x-understudy-engine": "us"}
            if path == "/chat/completions" and body["model"] == "both"
            else key
        )
        assert (await house.gate.post(path, body, headers)).status in (400, 403)
    assert {m["id"] for m in (await house.get("/models", key)).json["data"]} == {
        "both",
        "europe",
        "america",
        "beside",
    }
    assert (len(house.us.asked), len(house.operator.asked)) == before


async def test_a_failing_engine_of_the_region_is_replaced_by_none_elsewhere(house: House) -> None:
    key, before = await house.key("failing", "old-world"), len(house.us.asked)
    house.eu.script = _broken
    try:
        assert (await house.gate.post("/chat/completions", chat("both", "fails"), key)).status >= 500
    finally:
        house.eu.script = None
    assert len(house.us.asked) == before


async def test_a_stand_in_that_an_operator_names_reaches_no_further_than_its_request(house: House) -> None:
    """Nobody but `eu` serves `europe`. It is drained, and `us` is named, which has no price and another region."""
    memory = house.gate.gateway.memory
    assert memory is not None
    states, engines = memory.store.jobs.engine_states, house.gate.gateway.built.engines
    free = await house.key("stand-in", "acme")
    limited = await house.key("priced", "acme", limits=Limits(budgets=(Budget(1.0, "month"),)))
    regional = await house.key("there", "old-world")

    async def asked(key: dict[str, str], path: str = "/chat/completions", **body: Any) -> tuple[int, bool]:
        """The status, and whether `us` was asked."""
        before = len(house.us.asked)
        # Each is another one: no answer is a remembered one.
        got = await house.gate.post(path, chat("europe", f"Stand in {before} {body}") | body, key)
        if got.status == 200:
            assert got.headers["x-understudy-failed-over"] == "eu; open"
        return got.status, len(house.us.asked) > before

    try:
        states.drain("eu", "ann", "", stand_in="us").result(PATIENCE_S)
        await until(lambda: engines.stand_ins, "the drain is known")
        await until(lambda: engines.managed["eu"].servers[0].drained, "it is drained")
        assert await asked(free) == (200, True)
        assert await asked(free, stream=True) == (200, True)
        assert await asked(free | {"x-understudy-engine": "eu"}) == (503, False)
        assert await asked(limited) == (503, False)
        assert await asked(regional) == (503, False)
        # What an engine does beside answering is not done by another.
        searches = {"input": "More?", "tools": [{"type": "web_search"}]}
        assert await asked(free, "/responses", **searches) == (503, False)
        states.drain("eu", "ann", "").result(PATIENCE_S)
        await until(lambda: not engines.stand_ins, "no stand-in any more")
        assert await asked(free) == (503, False)
    finally:
        states.restore("eu").result(PATIENCE_S)
        await until(lambda: not engines.managed["eu"].servers[0].drained, "it is restored")


async def test_a_tenants_own_upstream_key_is_sent_and_opens_what_is_stored(house: House) -> None:
    key = await house.key("own", "umbrella")
    house.operator.script = _json
    seen = len(house.operator.asked)
    try:
        assert (await house.get("/files", key)).status == 200
        assert (
            await house.gate.post(
                "/responses", {"model": "m", "input": [{"type": "item_reference", "id": "x"}]}, key
            )
        ).status == 200
        assert (await house.gate.post("/chat/completions", chat("beside", "own"), key)).status == 200
        assert (await house.get("/organization/users", key)).status == 403
    finally:
        house.operator.script = None
    await house.gate.post("/chat/completions", chat("america", "own"), key)
    sent = [asked.headers["Authorization"] for asked in house.operator.asked[seen:]]
    assert sent == [f"Bearer {OWN}"] * 3
    assert house.us.asked[-1].headers["Authorization"] == "Bearer sk-us"


async def test_what_a_tenants_own_key_is_refused_is_nobody_elses(house: House) -> None:
    own, other = await house.key("refused", "umbrella"), await house.key("beside", "acme")
    house.operator.script = _refuses_own
    try:
        for number in range(8):
            assert (
                await house.gate.post("/chat/completions", chat("beside", f"r{number}"), own)
            ).status == 401
        assert (await house.gate.post("/chat/completions", chat("beside", "r"), other)).status == 200
    finally:
        house.operator.script = None


async def test_a_key_with_limited_dollars_reaches_only_what_has_a_price(house: House) -> None:
    budgets = (Budget(10.0, "total"),)
    limited = await house.key("dollars", limits=Limits(budgets=budgets))
    loose = await house.key("loose", limits=Limits(budgets=budgets, allow_unpriced=True))
    asked = {"europe": 200, "both": 403, "america": 403, "unknown": 403}
    for model, status in asked.items():
        assert (await house.gate.post("/chat/completions", chat(model, "priced"), limited)).status == status
    assert (await house.gate.post("/embeddings", {"model": "unknown", "input": "x"}, limited)).status == 403
    assert (await house.get("/models", limited)).status == 200
    assert (await house.gate.post("/chat/completions", chat("america", "priced"), loose)).status == 200


async def test_what_is_opened_is_closed_to_a_budget_since_nothing_says_what_it_costs(house: House) -> None:
    opened = Limits(endpoints=("/threads*", "/batches*", "/videos*", "/realtime*", "/files*"))
    limited = await house.key("opened", limits=replace(opened, budgets=(Budget(10.0, "total"),)))
    loose = await house.key(
        "opened loosely", limits=replace(opened, budgets=(Budget(10.0, "total"),), allow_unpriced=True)
    )
    before = house.asked
    for path in ("/threads/runs", "/batches", "/videos", "/realtime/client_secrets"):
        refused = await house.gate.post(path, {"model": "europe"}, limited)
        assert (refused.status, refused.json["error"]["code"]) == (403, "unpriced"), path
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    upgrade |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    talked = await house.get("/realtime?model=europe", limited | upgrade)
    assert (talked.status, talked.json["error"]["code"]) == (403, "unpriced")
    assert house.asked == before
    for headers, path in ((loose, "/batches"), (loose, "/threads/runs"), (limited, "/files")):
        assert (await house.gate.post(path, {"model": "europe"}, headers)).status != 403, path
    assert (await house.get("/batches", limited)).status != 403
    assert house.asked == before + 4


async def test_wildcards_serve_what_no_name_does(house: House) -> None:
    before = len(house.us.asked)
    key = await house.key("wild")
    got = await house.gate.post("/chat/completions", chat("claude-opus-9", "wild"), key)
    assert got.json["choices"][0]["message"]["content"] == "From America."
    assert house.us.asked[-1].json["model"] == "claude-opus-9"
    assert len(house.us.asked) == before + 1
    assert "claude-*" not in {m["id"] for m in (await house.get("/models", key)).json["data"]}


async def test_end_users_are_kept_apart_as_the_tenant_or_the_key_has_it(house: House) -> None:
    shared = await house.key("shared", "together")
    apart = await house.key("apart", "together", partition="user")

    async def hit(key: dict[str, str], user: str, text: str) -> bool:
        return (await house.gate.post("/chat/completions", chat("europe", text, user=user), key)).hit

    assert [await hit(shared, user, "partition 1") for user in ("ann", "ben")] == [False, True]
    assert [await hit(apart, user, "partition 2") for user in ("ann", "ben", "ann")] == [False, False, True]


@pytest.mark.parametrize("user", [None, ["ann"], {"id": "ann"}, 7, ""])
async def test_a_tenant_that_requires_users_refuses_requests_without_a_name(
    house: House, user: object
) -> None:
    key, before = await house.key(f"named {user}", "named"), house.asked
    refused = await house.gate.post("/chat/completions", chat("europe", user=user), key)
    assert refused.status == 400 and refused.json["error"]["code"] == "user_required"
    assert refused.json["error"]["param"] == "safety_identifier"
    assert (await house.get("/models", key)).status == 200
    assert house.asked <= before + 1


async def test_a_user_may_be_long_and_many(house: House) -> None:
    key = await house.key("many", "named")
    named = [{"user": "u" * 1_000_000}, *({"safety_identifier": f"user-{n}"} for n in range(20))]
    for fields in named:
        assert (
            await house.gate.post("/chat/completions", chat("europe", "many", **fields), key)
        ).status == 200


async def _json(request: web.Request, asked: Asked) -> web.Response:
    if request.path.endswith("/chat/completions"):
        return web.json_response(completion("Fine."))
    return web.json_response({"object": "list", "data": [], "id": "resp_1", "text": "x"})


async def _broken(request: web.Request, asked: Asked) -> web.Response:
    return web.json_response({"error": {"message": "no"}}, status=500)


async def _refuses_own(request: web.Request, asked: Asked) -> web.Response:
    if asked.headers["Authorization"] == f"Bearer {OWN}":
        return web.json_response({"error": {"message": "bad key", "code": "invalid_api_key"}}, status=401)
    return web.json_response(completion("Fine."))


async def test_a_refusal_has_the_shape_of_the_api_that_was_asked(house: House) -> None:
    key = await house.key("shapes", limits=Limits(models=("gpt-4*",)))
    refused = await house.gate.post("/messages", {"model": "claude", "max_tokens": 1, "messages": []}, key)
    assert (refused.status, refused.json["type"]) == (403, "error")
    assert refused.json["error"]["type"] == "permission_error"
    file = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
    body = {"model": "gpt-4", "max_tokens": 1, "messages": [{"role": "user", "content": [file]}]}
    refused = await house.gate.post("/messages", body, key)
    assert (refused.status, refused.json["error"]["type"]) == (403, "permission_error")
