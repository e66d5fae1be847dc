"""The same through the sockets of a gateway: a workflow ingests a document while chats are asked that look for examples."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.ingest.texts import text
from benchmarks.processes import free_port, started, wait_until

_STAGE = re.compile(r'^understudy_bypassed_total\{stage="([^"]*)"\} ([0-9.e+]+)', re.MULTILINE)
_EMBEDS = re.compile("EmbedderLate")
_KEY = {"Authorization": "Bearer anybody"}
_TIMEOUT = aiohttp.ClientTimeout(total=3600)


async def measured(chosen: Any, folder: Path) -> dict[str, Any]:
    """Spells with and without ingestion alternate until all chunks are in."""
    port = free_port()
    config, log = folder / "ingest.json", folder / "gateway.log"
    config.write_text(json.dumps(_config(port, folder, chosen)))
    command = [sys.executable, "-m", "understudy", "serve", "--config", str(config)]
    with started(command, log) as process:
        origin = f"http://127.0.0.1:{port}"
        async with aiohttp.ClientSession(origin, timeout=_TIMEOUT, headers=_KEY) as client:
            await asyncio.to_thread(
                wait_until, lambda: _listens(port), "the gateway", process, log, within_s=300, pause_s=0.2
            )
            return await _spells(client, chosen)


async def _spells(client: aiohttp.ClientSession, chosen: Any) -> dict[str, Any]:
    draw = random.Random(chosen.seed)
    counts = {"with_ingestion": [0, 0], "without_ingestion": [0, 0]}
    ingested_s, done = 0.0, 0
    while done < chosen.chunks:
        many = min(chosen.spell, chosen.chunks - done)
        document = [text(draw, chosen.tokens) for _ in range(many)]
        began = time.perf_counter()
        async with _requests(client, chosen.rate, draw, counts["with_ingestion"]):
            await _ingested(client, document)
        spell_s = time.perf_counter() - began
        async with _requests(client, chosen.rate, draw, counts["without_ingestion"]):
            await asyncio.sleep(spell_s)
        ingested_s, done = ingested_s + spell_s, done + many
        print(f"{done} chunks", file=sys.stderr)
    found: dict[str, Any] = {
        name: {
            "requests": asked,
            "bypassed": bypassed,
            "bypassed_percent": round(100 * bypassed / max(1, asked), 3),
        }
        for name, (asked, bypassed) in counts.items()
    }
    rise = found["with_ingestion"]["bypassed_percent"] - found["without_ingestion"]["bypassed_percent"]
    return {
        "chunks": done,
        "chunks_a_second": round(done / ingested_s, 1),
        "requests_a_second": chosen.rate,
        "deadline_ms": chosen.deadline_ms,
        **found,
        "rise_in_points": round(rise, 3),
    }


async def _ingested(client: aiohttp.ClientSession, document: list[str]) -> None:
    body = {
        "model": "ingest",
        "messages": [{"role": "user", "content": "What is ingested?"}],
        "understudy": {"inputs": {"documents": document}},
    }
    async with client.post("/v1/chat/completions", json=body) as answer:
        if answer.status != 200:
            raise RuntimeError(f"the workflow failed with {answer.status}: {await answer.text()}")
        await answer.read()


@contextlib.asynccontextmanager
async def _requests(
    client: aiohttp.ClientSession, rate: float, draw: random.Random, counted: list[int]
) -> AsyncIterator[None]:
    """Chats come while this is entered, and are waited for; `counted` gains their number, and how many were bypassed."""
    over, before = asyncio.Event(), await _bypassed(client)

    async def one(question: str) -> None:
        body = {"model": "asked", "messages": [{"role": "user", "content": question}], "max_tokens": 8}
        async with client.post("/v1/chat/completions", json=body) as answer:
            await answer.read()
            counted[0] += answer.status == 200

    async with asyncio.TaskGroup() as requests:

        async def come() -> None:
            while not over.is_set():
                await asyncio.sleep(draw.expovariate(rate))
                requests.create_task(one(text(draw, draw.choice((8, 12, 16, 24, 32, 64)))))

        requests.create_task(come())
        yield
        over.set()
    counted[1] += await _bypassed(client) - before


async def _bypassed(client: aiohttp.ClientSession) -> int:
    async with client.get("/metrics") as answer:
        page = await answer.text()
    return round(sum(float(value) for stage, value in _STAGE.findall(page) if _EMBEDS.search(stage)))


def _listens(port: int) -> bool:
    import socket

    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _config(port: int, folder: Path, chosen: Any) -> dict[str, Any]:
    simulated = {"kind": "simulated", "pace": 0}
    return {
        "listen": {"port": port},
        "admin": {"enabled": False},
        "engines": {"lead": {**simulated, "role": "lead"}, "small": {**simulated, "role": "understudy"}},
        "models": {"asked": {"engines": ["small", "lead"], "policy": "few_shot"}},
        "memory": {
            "data_dir": str(folder / "data"),
            "examples": {"embedding_model": chosen.source},
            "advanced": {
                "embedding_deadline_ms": chosen.deadline_ms,
                "embedding_cache_dir": str(chosen.cache),
            },
        },
        "workflows": {
            "max_items": 10_000,
            "max_value_kib": 16_384,
            "ingest": {
                "inputs": {"question": "last_user", "documents": "texts"},
                "steps": {
                    "index": {"ingest": "{{documents}}"},
                    "found": {"search": "{{question}}", "in": "{{index}}", "k": 1},
                    "told": {"transform": "{{found}}", "apply": [{"join": "\n"}]},
                },
                "output": "told",
            },
        },
    }
