"""Two gateways on one PostgreSQL database, over real sockets: what one remembers the other knows, and what it refuses, too.

Blocking reads on the event loop are errors here: see store.reading.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.postgres.proxy import Proxy
from benchmarks.postgres_server import PostgresServer
from store import Store, reading
from store.errors import BadSecretFile
from store.people.limits import Limits, Terms
from store.records import Key
from tests.flow.line import Got, Line, Upstream, line, upstream
from tests.patience import PATIENCE_S, until

QUESTION = "How do I list all files in a directory on Linux, including hidden ones?"
ALIKE = "How can I list all files in a Linux directory, including the hidden ones?"


@dataclass
class Site:
    """Two gateways with data folders of their own, and the engines behind them."""

    one: Line
    other: Line
    small: Upstream
    large: Upstream

    async def new_key(self, limits: Limits | None = None) -> tuple[Key, dict[str, str]]:
        keys = store_of(self.one).keys
        key, secret = await asyncio.to_thread(
            keys.create, "acme", "test", terms=Terms(limits=limits or Limits())
        )
        await until(
            lambda: store_of(self.other).keys.lookup(secret) is not None, "the key known on the other"
        )
        return key, {"Authorization": f"Bearer {secret}"}


def store_of(gate: Line) -> Store:
    assert gate.gateway.memory is not None
    return gate.gateway.memory.store


@pytest.fixture(autouse=True)
def nothing_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(reading.REFUSING, "1")
    monkeypatch.setattr(reading, "refused", [])
    yield
    assert not reading.refused, reading.refused[0]


@asynccontextmanager
async def site(tmp_path: Path, url: str, **memory: Any) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        small, large = [await stack.enter_async_context(upstream()) for _ in range(2)]
        small.says, large.says = "Use ls -a.", "Use ls --all."
        engines = {
            name: {"base_url": each.url, "advanced": {"attempts": 1}}
            for name, each in (("small", small), ("large", large))
        }
        model = {
            "engines": ["small", "large"],
            "policy": "few_shot",
            "few_shot": {"theta": 0.8, "m": 1},
        }
        folders = [tmp_path / "one", tmp_path / "other"]
        gates: list[Line] = []
        for folder in folders:
            if gates:
                folder.mkdir()
                shutil.copy(folders[0] / "secret", folder / "secret")
            config = {
                "engines": engines,
                "models": {"m": model},
                "feedback": {"enabled": True},
                "memory": {
                    "data_dir": str(folder),
                    "database_url": url,
                    "deadline_ms": 10_000,
                    **memory,
                },
            }
            gates.append(await stack.enter_async_context(line(config)))
        yield Site(*gates, small, large)


async def test_what_one_remembers_the_other_knows(tmp_path: Path, postgres_url: str) -> None:
    """A repeat is a hit, a similar question goes to the small engine with the example, feedback on either is stored."""
    async with site(tmp_path, postgres_url) as two:
        _, key = await two.new_key()
        first = await two.one.chat(QUESTION, key, model="m")
        assert first.status == 200 and first.text == "Use ls --all." and not first.hit
        again = await two.other.chat(QUESTION, key, model="m")
        assert again.hit and again.text == first.text

        def followed() -> bool:
            indexes = store_of(two.other).indexes
            assert indexes is not None
            return [indexes.size(tenant) for tenant in store_of(two.other).examples.tenants()] == [1]

        await eventually_on_a_thread(followed)
        alike = await two.other.chat(ALIKE, key, model="m")
        assert alike.text == "Use ls -a.", alike.headers
        assert QUESTION in str(two.small.asked[-1].json["messages"])
        decision = alike.headers["x-understudy-decision-id"]
        said = {"decision_id": decision, "score": 0.9}
        assert (await two.one.post("/feedback", said, key)).status == 201
        assert (await two.other.post("/feedback", said, key)).status == 200


async def test_a_key_that_is_revoked_on_one_is_refused_on_the_other(
    tmp_path: Path, postgres_url: str
) -> None:
    async with site(tmp_path, postgres_url, examples={"enabled": False}) as two:
        key, headers = await two.new_key()
        assert (await two.other.chat("Q", headers, model="m")).status == 200
        await asyncio.wrap_future(store_of(two.one).keys.revoke(key.id))
        began = time.monotonic()
        assert (await two.one.chat("Q", headers, model="m")).status == 401
        await until(lambda: store_of(two.other).keys.in_force(key.id) is None, "the key revoked on the other")
        assert (await two.other.chat("Q", headers, model="m")).status == 401
        assert time.monotonic() - began < PATIENCE_S


@pytest.mark.slow
async def test_limits_hold_over_both(tmp_path: Path, postgres_url: str) -> None:
    async with site(tmp_path, postgres_url, examples={"enabled": False}) as two:
        _, headers = await two.new_key(Limits(requests_per_minute=4))
        got = [
            await gate.chat(f"Q{number}", headers, model="m")
            for number in range(4)
            for gate in (two.one, two.other)
        ]
        # A minute may begin meanwhile, once.
        assert 4 <= sum(one.status == 200 for one in got) <= 8 and len(two.large.asked) <= 8
        assert any(one.status == 429 for one in got) or len(two.large.asked) == 8


@pytest.mark.slow
def test_another_secret_is_refused(tmp_path: Path, postgres_url: str) -> None:
    Store.open(tmp_path / "one", database_url=postgres_url).close()
    Store.open(tmp_path / "one", database_url=postgres_url).close()
    with pytest.raises(BadSecretFile, match="not the one"):
        Store.open(tmp_path / "other", database_url=postgres_url)


@pytest.mark.slow
async def test_a_database_that_does_not_answer_is_gone_without(
    tmp_path: Path, postgres_url: str, postgres_server: PostgresServer
) -> None:
    """Requests are answered, what must be durable is a 503 with Retry-After, /readyz tells; afterwards all is as before."""
    with Proxy(postgres_server.port) as proxy:
        url = postgres_url.replace(f":{postgres_server.port}/", f":{proxy.port}/")
        async with site(tmp_path, url, deadline_ms=50) as two:
            _, key = await two.new_key()
            kept = await two.one.chat(QUESTION, key, model="m")
            proxy.freeze()
            try:
                late = await ask(two.one, "Something else, of Greenland?", key)
                assert late.status == 200 and late.text == "Use ls --all."
                assert "bypassed" in await metrics(two.one)
                said = {"decision_id": kept.headers["x-understudy-decision-id"], "score": 0.9}
                told, _ = await asyncio.gather(
                    send(two.one, "/feedback", said, key), degraded(two.one, "PostgreSQL was not heard of")
                )
                assert told.status == 503 and int(told.headers["Retry-After"]) > 0
                # From memory, without the database.
                assert (await ask(two.one, QUESTION, key)).hit
            finally:
                proxy.freeze(frozen=False)
            await until_async(lambda: ready(two.one), "ready again")
            # What took too long may have been written yet.
            assert (await two.one.post("/feedback", said, key)).status in (200, 201)
            assert (await two.other.chat(QUESTION, key, model="m")).hit


@pytest.mark.slow
async def test_keys_hold_for_a_while_without_their_database(
    tmp_path: Path, postgres_url: str, postgres_server: PostgresServer
) -> None:
    with Proxy(postgres_server.port) as proxy:
        url = postgres_url.replace(f":{postgres_server.port}/", f":{proxy.port}/")
        async with site(tmp_path, url, deadline_ms=50, stale_s=2, examples={"enabled": False}) as two:
            _, key = await two.new_key()
            proxy.refuse()
            proxy.cut()
            try:
                assert (await ask(two.other, "Q", key)).status == 200
                assert (await ask(two.other, "Q", {"Authorization": "Bearer us-wrong"})).status == 401

                async def stale() -> bool:
                    got = await ask(two.other, "Q2", key)
                    assert got.status == 200 or (got.status, got.headers["Retry-After"]) == (503, "5")
                    return got.status == 503

                await until_async(stale, "keys are not taken any more")
            finally:
                proxy.refuse(refusing=False)

            async def known_again() -> bool:
                return (await ask(two.other, "Q3", key)).status == 200

            await until_async(known_again, "keys are taken again")


async def send(gate: Line, path: str, body: dict[str, Any], headers: dict[str, str]) -> Got:
    """Without waiting until what came of it is stored: it cannot be."""
    sent = headers | {"Content-Type": "application/json"}
    async with gate.session.post(gate.url + path, data=json.dumps(body), headers=sent) as response:
        return Got(response.status, response.headers.copy(), await response.read())


async def ask(gate: Line, question: str, headers: dict[str, str]) -> Got:
    return await send(
        gate,
        "/chat/completions",
        {"model": "m", "messages": [{"role": "user", "content": question}]},
        headers,
    )


async def metrics(gate: Line) -> str:
    async with gate.session.get(gate.url.removesuffix("/v1") + "/metrics") as response:
        return await response.text()


async def readyz(gate: Line) -> dict[str, Any]:
    async with gate.session.get(gate.url.removesuffix("/v1") + "/readyz") as response:
        found: dict[str, Any] = await response.json()
        return found | {"code": response.status}


async def degraded(gate: Line, why: str) -> None:
    async def tells() -> bool:
        told = await readyz(gate)
        assert told["code"] == 200
        return told["status"] == "degraded" and why in str(told["problems"])

    await until_async(tells, "degraded")


async def ready(gate: Line) -> bool:
    return bool((await readyz(gate))["status"] == "ok")


async def until_async(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not await condition():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.05)


async def eventually_on_a_thread(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end
        await asyncio.sleep(0.02)
