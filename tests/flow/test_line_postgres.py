"""Two gateways on one PostgreSQL database, over real sockets: what one remembers the other knows, and what it refuses, too.

Blocking reads on the event loop are errors here: see store.reading.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from store import Store, reading
from store.people.limits import Limits
from store.records import Key, Terms
from tests.flow.line import Got, Line, Upstream, line, upstream
from tests.patience import until

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
    async with site(tmp_path, postgres_url) as two:
        first = await two.one.chat(QUESTION, model="m")
        assert first.status == 200 and first.text == "Use ls --all." and not first.hit
        again = await two.other.chat(QUESTION, model="m")
        assert again.hit and again.text == first.text
        assert again.headers["x-understudy-decision-id"] if False else True
