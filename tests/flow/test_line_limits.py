"""Limits of keys over real sockets, in one worker: what is counted, what is refused and how, and what a client is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from store import Store
from store.people.allowance import NANO
from store.people.limits import Budget, Limits, Terms
from store.records import Key
from tests.flow.line import Asked, Line, Upstream, completion, line, upstream
from tests.patience import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
PRICE = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 10.0}
"""The scripted upstream counts 7 tokens in and 3 out: 37 millionths of a dollar."""
COST_USD = 37e-6


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def behind() -> AsyncIterator[Upstream]:
    async with upstream() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(behind: Upstream, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Line]:
    folder: Path = tmp_path_factory.mktemp("limits")
    engine = {"kind": "openai", "base_url": behind.url, "api_key": "sk-up"}
    config: dict[str, Any] = {
        "engines": {"big": engine | {"price": PRICE}, "unpriced": engine},
        "models": {"m": {"engines": ["big"]}, "free": {"engines": ["unpriced"]}},
        "memory": {"data_dir": str(folder), "examples": {"enabled": False}},
    }
    async with line(config) as made:
        yield made


@pytest.fixture(autouse=True)
def fresh(behind: Upstream) -> None:
    behind.script = None
    behind.asked.clear()


def store_of(gate: Line) -> Store:
    assert gate.gateway.memory is not None
    return gate.gateway.memory.store


class Who:
    """A key and what it sends."""

    def __init__(self, gate: Line, key: Key, secret: str) -> None:
        self.gate, self.key = gate, key
        self.headers = {"Authorization": f"Bearer {secret}"}

    async def chat(self, question: str, headers: dict[str, str] | None = None, **fields: Any) -> Any:
        fields.setdefault("model", "m")
        return await self.gate.chat(question, self.headers | (headers or {}), **fields)

    async def spent(self, kind: str, scope: str = "") -> int:
        """Once it is booked."""
        found: list[int] = []

        def booked() -> bool:
            standings = store_of(self.gate).allowances.standings(scope or f"key:{self.key.id}", 0)
            found[:] = [one.spent for one in standings if one.window.kind == kind and not one.leased]
            return bool(found)

        await until(booked, "what was spent is booked, and the rest given back")
        return sum(found)


async def make(gate: Line, limits: Limits, each_user: Limits | None = None, tenant: str = "acme") -> Who:
    terms = Terms(limits=limits, each_user=each_user or Limits())
    keys = store_of(gate).keys
    key, secret = await asyncio.to_thread(keys.create, tenant, "web", terms=terms)
    await until(lambda: keys.lookup(secret) is not None, "the key known")
    return Who(gate, key, secret)


def budget(usd: float) -> Limits:
    return Limits(budgets=(Budget(usd, "day"),))


async def test_a_budget_is_spent_to_its_end_and_then_refused_for_good(gate: Line, behind: Upstream) -> None:
    who = await make(gate, budget(20 * COST_USD))
    got = [await who.chat(f"Budget {n}", max_tokens=3) for n in range(30)]
    answered = [one.status for one in got].count(200)
    # A reservation is a little more than what is used: what is left does not suffice for another.
    assert 18 <= answered <= 20 and answered == len(behind.asked)
    refused = got[-1]
    assert refused.status == 429
    assert refused.json["error"]["code"] == refused.json["error"]["type"] == "insufficient_quota"
    assert refused.headers["x-should-retry"] == "false" and "Retry-After" not in refused.headers
    assert "the key 'web' may spend" in refused.json["error"]["message"].lower()
    assert await who.spent("usd:day") == answered * round(COST_USD * NANO)


async def test_a_repeat_costs_nothing_and_is_answered_when_the_budget_is_spent(gate: Line) -> None:
    who = await make(gate, budget(3 * COST_USD))
    assert (await who.chat("Repeat", max_tokens=3)).status == 200
    assert (await who.chat("Another", max_tokens=30)).status == 429
    again = await who.chat("Repeat", max_tokens=3)
    assert again.hit and again.status == 200
    assert await who.spent("usd:day") == round(COST_USD * NANO)


async def test_a_stream_is_settled_by_a_usage_that_its_client_never_sees(
    gate: Line, behind: Upstream
) -> None:
    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        assert asked.json["stream_options"] == {"include_usage": True, "x": 1}
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in STREAM:
            await response.write(piece)
        return response

    behind.script = script
    who = await make(gate, budget(1))
    got = await who.chat("Stream", stream=True, stream_options={"x": 1})
    assert got.body == SHOWN
    assert await who.spent("usd:day") == 100 * 1000 + 50 * 10000
    told = await who.chat("Stream 2", stream=True, stream_options={"x": 1, "include_usage": True})
    assert told.body == b"".join(STREAM)


CHUNK = b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"\\"usage\\":null, "}}]'
STREAM = (
    CHUNK + b', "usage" : null}\n',
    b"\n" + CHUNK + b',"usage":null,"x":{"usage":1}}\n\n: a comment with "usage"\n\n',
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
    b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":50}}\n\ndata: [DONE]\n\n',
)
SHOWN = (
    CHUNK
    + b"}\n\n"
    + CHUNK
    + b',"x":{"usage":1}}\n\n: a comment with "usage"\n\n'
    + b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


async def test_a_stream_without_usage_is_estimated(gate: Line, behind: Upstream) -> None:
    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        return await behind.stream(request, Asked(asked.path, asked.headers, b'{"stream": true}'))

    behind.script = script
    who = await make(gate, budget(1))
    assert (await who.chat("No usage", stream=True)).text == behind.says.replace(" ", "")
    (standing,) = store_of(gate).allowances.standings(f"key:{who.key.id}", 0)
    assert await who.spent("usd:day") > 0
    (standing,) = store_of(gate).allowances.standings(f"key:{who.key.id}", 0)
    assert standing.estimated == standing.spent


async def test_requests_and_tokens_per_minute_are_told_and_kept(gate: Line) -> None:
    who = await make(gate, Limits(requests_per_minute=3, tokens_per_minute=2000))
    got = [await who.chat(f"Rate {n}", max_tokens=3) for n in range(4)]
    assert [one.status for one in got] == [200, 200, 200, 429]
    assert [one.headers["x-ratelimit-remaining-requests"] for one in got] == ["2", "1", "0", "0"]
    assert got[0].headers["x-ratelimit-limit-tokens"] == "2000"
    assert 1900 < int(got[0].headers["x-ratelimit-remaining-tokens"]) < 2000
    assert got[0].headers["x-ratelimit-reset-requests"].endswith("s")
    assert got[3].json["error"]["code"] == "rate_limit_exceeded"
    assert 1 <= int(got[3].headers["Retry-After"]) <= 60
    too_large = await (await make(gate, Limits(tokens_per_minute=50))).chat("Large", max_tokens=100)
    assert too_large.status == 400 and too_large.json["error"]["code"] == "tokens_per_minute_exceeded"


async def test_no_more_requests_at_once_than_a_key_may_have(gate: Line, behind: Upstream) -> None:
    go_on = asyncio.Event()

    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        await go_on.wait()
        return web.json_response(completion("ok"))

    behind.script = script
    who = await make(gate, Limits(concurrency=2))
    running = [asyncio.create_task(who.chat(f"At once {n}")) for n in range(2)]
    await until(lambda: len(behind.asked) == 2, "both are under way")
    refused = await who.chat("One too many")
    assert refused.status == 429 and "at once" in refused.json["error"]["message"]
    assert refused.headers["Retry-After"] == "1"
    go_on.set()
    assert [one.status for one in await asyncio.gather(*running)] == [200, 200]
    assert (await who.chat("Now there is room")).status == 200


@pytest.mark.parametrize(
    ("fields", "sent"),
    [({}, 50), ({"n": 2}, 25), ({"max_tokens": 50}, 50), ({"max_completion_tokens": 7}, 7)],
)
async def test_the_most_output_is_sent_along(
    gate: Line, behind: Upstream, fields: dict[str, int], sent: int
) -> None:
    who = await make(gate, Limits(max_output_tokens=50))
    assert (await who.chat(f"Output {fields}", **fields)).status == 200
    asked = behind.asked[-1].json
    assert asked.get("max_completion_tokens", asked.get("max_tokens")) == sent


@pytest.mark.parametrize(
    "fields", [{"max_tokens": 51}, {"max_tokens": 26, "n": 2}, {"max_completion_tokens": 10**12}]
)
async def test_more_output_than_allowed_is_refused(
    gate: Line, behind: Upstream, fields: dict[str, int]
) -> None:
    who = await make(gate, Limits(max_output_tokens=50))
    refused = await who.chat("Too long", **fields)
    assert refused.status == 400 and refused.json["error"]["code"] == "max_output_tokens_exceeded"
    assert refused.json["error"]["param"].startswith("max_") and not behind.asked


@pytest.mark.parametrize("most", [10**12, 10**40])
async def test_a_trillion_tokens_are_more_than_any_budget(gate: Line, behind: Upstream, most: int) -> None:
    who = await make(gate, budget(1000))
    body = json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": most}
    ).encode()
    refused = await gate.post("/chat/completions", body, who.headers)
    assert refused.status == 429 and refused.json["error"]["code"] == "insufficient_quota"
    assert not behind.asked


async def test_each_end_user_has_limits_of_its_own(gate: Line) -> None:
    who = await make(gate, Limits(), Limits(requests_per_minute=1))
    for user in ("ann", "bob"):
        assert (await who.chat(f"Hello {user}", user=user)).status == 200
    refused = await who.chat("Again", user="ann")
    assert refused.status == 429 and "This end user" in refused.json["error"]["message"]
    assert "ann" not in refused.json["error"]["message"]
    header = await who.chat("By header", {"x-understudy-user": "ann"})
    assert header.status == 429
    assert (await who.chat("Nobody")).status == 200
    assert (await who.chat("Nobody again")).status == 429


async def test_a_tenants_limits_hold_for_all_its_keys_together(gate: Line) -> None:
    records = store_of(gate).tenant_records
    terms = Terms(limits=Limits(requests_per_minute=2))
    await asyncio.to_thread(records.create, "together", terms)
    first, second = [await make(gate, Limits(), tenant="together") for _ in range(2)]
    assert [(await who.chat(f"Tenant {n}")).status for n, who in enumerate((first, second))] == [200, 200]
    refused = await first.chat("Tenant 3")
    assert refused.status == 429 and "The tenant 'together'" in refused.json["error"]["message"]


async def test_what_has_no_price_is_closed_to_a_budget_unless_that_is_allowed(gate: Line) -> None:
    closed = await make(gate, budget(1))
    assert (await closed.chat("Free", model="free")).status == 403
    opened = await make(gate, Limits(budgets=(Budget(1, "day"),), allow_unpriced=True))
    assert (await opened.chat("Free", model="free")).status == 200


async def test_an_error_of_the_upstream_costs_nothing(gate: Line, behind: Upstream) -> None:
    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response({"error": {"message": "bad", "type": "invalid_request_error"}}, status=400)

    behind.script = script
    who = await make(gate, budget(3 * COST_USD))
    for n in range(5):
        assert (await who.chat(f"Bad {n}", max_tokens=3)).status == 400
    assert await who.spent("usd:day") == 0


async def test_embeddings_are_counted_by_what_they_used(gate: Line) -> None:
    who = await make(gate, Limits(tokens_per_minute=1000))
    got = await gate.post("/embeddings", {"model": "m", "input": "some words"}, who.headers)
    assert got.status == 200
    assert "x-ratelimit-remaining-tokens" in got.headers


async def test_without_limits_nothing_is_told(gate: Line) -> None:
    who = await make(gate, Limits(models=("m",)))
    got = await who.chat("Unlimited")
    assert got.status == 200 and not [name for name in got.headers if name.startswith("x-ratelimit")]
