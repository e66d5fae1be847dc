"""Two gateways on one PostgreSQL database, over real sockets: what one remembers the other knows, and what it refuses, too.

Blocking reads on the event loop are errors here: see store.reading.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from store import Store, reading
from store.people.limits import Limits
from store.records import Key, Terms
from tests.flow.line import Line, Upstream, line, upstream
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
            (tenant,) = store_of(two.other).examples.tenants()
            indexes = store_of(two.other).indexes
            assert indexes is not None
            return indexes.size(tenant) == 1

        await eventually_on_a_thread(followed)
        alike = await two.other.chat(ALIKE, key, model="m")
        assert alike.text == "Use ls -a.", alike.headers
        assert QUESTION in str(two.small.asked[-1].json["messages"])
        decision = alike.headers["x-understudy-decision-id"]
        said = {"decision_id": decision, "score": 0.9}
        assert (await two.one.post("/feedback", said, key)).status == 201
        assert (await two.other.post("/feedback", said, key)).status == 200


async def test_a_key_that_is_revoked_on_one_is_refused_on_the_other(tmp_path: Path, postgres_url: str) -> None:
    async with site(tmp_path, postgres_url, examples={"enabled": False}) as two:
        key, headers = await two.new_key()
        assert (await two.other.chat("Q", headers, model="m")).status == 200
        await asyncio.wrap_future(store_of(two.one).keys.revoke(key.id))
        began = time.monotonic()
        assert (await two.one.chat("Q", headers, model="m")).status == 401
        await until(lambda: store_of(two.other).keys.in_force(key.id) is None, "the key revoked on the other")
        assert (await two.other.chat("Q", headers, model="m")).status == 401
        assert time.monotonic() - began < PATIENCE_S


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


async def eventually_on_a_thread(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end
        await asyncio.sleep(0.02)
