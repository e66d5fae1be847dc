"""The gateway's own API keys: who is let in, whose memory they see, and what never leaves for an upstream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from store.people.keys import KeyStore
from tests.flow.line import Line, Upstream, line, upstream
from tests.patience import until

CANARY = "sk-upstream-canary-0123456789"


@pytest.fixture
async def behind() -> AsyncIterator[Upstream]:
    async with upstream() as made:
        yield made


@pytest.fixture
async def gate(behind: Upstream, tmp_path: Path) -> AsyncIterator[Line]:
    memory = {"data_dir": str(tmp_path), "examples": {"enabled": False}}
    async with line({"upstream": {"base_url": behind.url, "api_key": CANARY}, "memory": memory}) as made:
        yield made


def keys_of(gate: Line) -> KeyStore:
    memory = gate.gateway.memory
    assert memory is not None
    return memory.store.keys


async def new_key(gate: Line, tenant: str) -> str:
    secret = (await asyncio.to_thread(keys_of(gate).create, tenant, "test"))[1]
    await until(lambda: keys_of(gate).lookup(secret) is not None, "the key known")
    return secret


async def test_once_there_is_a_key_every_request_needs_one(gate: Line, behind: Upstream) -> None:
    assert (await gate.chat("Q")).status == 200
    secret = await new_key(gate, "acme")
    for headers in ({}, {"Authorization": "Bearer us-wrong"}, {"Authorization": "Basic eA=="}):
        refused = await gate.chat("Q", headers)
        assert refused.status == 401 and refused.json["error"]["type"] == "authentication_error"
    assert (await gate.chat("Q2", {"Authorization": f"Bearer {secret}"})).status == 200
    assert (await gate.chat("Q2", {"api-key": secret})).hit
    assert len(behind.asked) == 2


@pytest.mark.parametrize("path", ["/embeddings", "/files", "/responses"])
async def test_pass_through_endpoints_need_a_key_too(gate: Line, behind: Upstream, path: str) -> None:
    await new_key(gate, "acme")
    assert (await gate.post(path, {"model": "m", "input": "x"})).status == 401
    assert not behind.asked


async def test_the_upstream_gets_its_own_key_and_never_the_clients(gate: Line, behind: Upstream) -> None:
    secret = await new_key(gate, "acme")
    for path, body in (
        ("/chat/completions", {"model": "m", "messages": []}),
        ("/responses", {"model": "m", "input": "x"}),
    ):
        await gate.post(path, body, {"Authorization": f"Bearer {secret}"})
    assert [a.headers["Authorization"] for a in behind.asked] == [f"Bearer {CANARY}"] * 2
    assert not [a for a in behind.asked if secret in str(a.headers)]


async def test_keys_of_one_tenant_share_memory_and_tenants_do_not(gate: Line) -> None:
    first, second, other = (
        await new_key(gate, "acme"),
        await new_key(gate, "acme"),
        await new_key(gate, "umbrella"),
    )
    await gate.chat("Q", {"Authorization": f"Bearer {first}"})
    assert (await gate.chat("Q", {"Authorization": f"Bearer {second}"})).hit
    assert not (await gate.chat("Q", {"Authorization": f"Bearer {other}"})).hit


async def test_a_revoked_key_is_refused(gate: Line) -> None:
    secret, spare = await new_key(gate, "acme"), await new_key(gate, "acme")
    key = keys_of(gate).lookup(secret)
    assert key is not None
    await asyncio.wrap_future(keys_of(gate).revoke(key.id))
    await until(lambda: keys_of(gate).lookup(secret) is None, "the key known to be revoked")
    assert (await gate.chat("Q", {"Authorization": f"Bearer {secret}"})).status == 401
    assert (await gate.chat("Q", {"Authorization": f"Bearer {spare}"})).status == 200


async def test_an_answer_is_not_replayed_to_a_key_with_another_dial(behind: Upstream, tmp_path: Path) -> None:
    memory: dict[str, Any] = {"data_dir": str(tmp_path)}
    async with line({"upstream": {"base_url": behind.url}, "memory": memory}) as gate:
        secrets = [await new_key(gate, "acme") for _ in range(3)]
        found = [keys_of(gate).lookup(secret) for secret in secrets]
    cheap, best, usual = ({"Authorization": f"Bearer {secret}"} for secret in secrets)
    dials = {key.id: dial for key, dial in zip(found, (0.0, 1.0), strict=False) if key is not None}
    engine = {
        "base_url": behind.url,
        "api_key": CANARY,
        "price": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 1},
    }
    served = {"engines": ["small", "large"], "policy": "in_context", "advanced": {"key_preferences": dials}}
    config = {"engines": {"small": engine, "large": engine}, "models": {"m": served}, "memory": memory}
    async with line(config) as gate:
        await gate.chat("Q", cheap, model="m")
        assert (await gate.chat("Q", cheap, model="m")).hit
        assert not (await gate.chat("Q", best, model="m")).hit
        assert not (await gate.chat("Q", usual, model="m")).hit
