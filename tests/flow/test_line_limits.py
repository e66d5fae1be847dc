"""Limits of keys over real sockets, in one worker: what is counted, what is refused and how, and what a client is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from store import Store
from store.people.limits import Budget, Limits
from store.records import Terms
from tests.flow.line import Asked, Line, Upstream, line, upstream
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
    config: dict[str, Any] = {
        "engines": {"big": {"kind": "openai", "base_url": behind.url, "api_key": "sk-up", "price": PRICE}},
        "models": {"m": {"engines": ["big"]}},
        "memory": {"data_dir": str(folder), "examples": {"enabled": False}},
    }
    async with line(config) as made:
        yield made


def store_of(gate: Line) -> Store:
    assert gate.gateway.memory is not None
    return gate.gateway.memory.store


async def key(
    gate: Line, limits: Limits, each_user: Limits | None = None, tenant: str = "acme"
) -> dict[str, str]:
    terms = Terms(limits=limits, each_user=each_user or Limits())
    keys = store_of(gate).keys
    secret = (await asyncio.to_thread(keys.create, tenant, "web", terms=terms))[1]
    await until(lambda: keys.lookup(secret) is not None, "the key known")
    return {"Authorization": f"Bearer {secret}"}


async def test_a_budget_is_spent_to_its_end_and_then_refused_for_good(gate: Line, behind: Upstream) -> None:
    who = await key(gate, Limits(budgets=(Budget(20 * COST_USD, "day"),)))
    statuses = []
    before = len(behind.asked)
    for n in range(40):
        got = await gate.chat(f"Budget {n}", who, model="m", max_tokens=3)
        statuses.append(got.status)
    print(statuses, len(behind.asked) - before, got.body, dict(got.headers))
    assert statuses[0] == 200
