"""Webhooks of a whole gateway: that half of a budget is spent is told once, and nothing of what was asked."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from aiohttp import web
from standardwebhooks.webhooks import Webhook

from store.people.limits import Budget, Limits, Terms
from tests.aiohttp_server import aiohttp_server
from tests.flow.line import Asked, completion, line, upstream
from tests.patience import until

SECRET = "whsec_" + "c2VjcmV0" * 6
CANARY = "the-canary-sings"


async def test_a_budget_half_spent_is_told_once_and_nothing_else(tmp_path: Path) -> None:
    got: list[tuple[dict[str, str], str]] = []

    async def receive(request: web.BaseRequest) -> web.StreamResponse:
        got.append((dict(request.headers), (await request.read()).decode()))
        return web.Response(status=204)

    def told() -> dict[str, list[dict[str, object]]]:
        found: dict[str, list[dict[str, object]]] = {}
        for headers, body in got:
            said = Webhook(SECRET).verify(body, headers)
            found.setdefault(said["type"], []).append(said["data"])
        return found

    async def answers(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response(completion("Yes.", usage={"prompt_tokens": 7, "completion_tokens": 93}))

    async with aiohttp_server(receive) as there, upstream() as behind:
        behind.script = answers
        price = {"input_usd_per_mtok": 1000, "output_usd_per_mtok": 1000}
        config = {
            "engines": {"one": {"base_url": behind.url, "api_key": "none", "price": price}},
            "models": {"m": {"engines": ["one"]}},
            "memory": {"data_dir": str(tmp_path), "examples": {"enabled": False}},
            "webhooks": [{"url": there, "secret": SECRET, "events": ["budget.crossed"]}],
        }
        async with line(config) as gate:
            memory = gate.gateway.memory
            assert memory is not None
            keys = memory.store.keys
            # Every answer costs ten cents.
            terms = Terms(limits=Limits(budgets=(Budget(0.15, "day"),)))
            key, secret = await asyncio.to_thread(keys.create, "acme", "web", terms=terms)
            await until(lambda: keys.lookup(secret) is not None, "the key known")
            asked = await gate.chat(CANARY, {"Authorization": f"Bearer {secret}"}, model="m", max_tokens=93)
            assert asked.status == 200 and asked.headers["x-understudy-cost"] == "0.1"
            await until(lambda: "budget.crossed" in told(), "half of the budget is told of")
            await asyncio.sleep(1.5)
    (crossed,) = told()["budget.crossed"]
    assert crossed["percent"] == 50 and crossed["key"] == key.id and crossed["name"] == "web"
    everything = json.dumps(got)
    assert CANARY not in everything and secret not in everything and SECRET not in everything
