"""Plays one stream through `understudy serve` at its defaults, over real sockets, and measures at the client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.effect.engines import USD_PER_MTOK, Engine, Upstreams, usd
from benchmarks.effect.streams import Stream
from benchmarks.processes import free_port, gateway_ready, started
from understudy.settings.learning import LearningSettings
from understudy.settings.models import ModelSettings

AT_ONCE = 8
MAX_LOSS: float = ModelSettings.model_fields["max_loss"].default
_READY_WITHIN_S = 300.0
_FEEDBACK_TRIES = 5
_LAST_OUTCOMES_S = 5.0


@dataclass(frozen=True, slots=True)
class Answered:
    """What the client saw of one request."""

    text: str
    engine: str
    answer: str
    usd: float
    latency_s: float


async def played(stream: Stream, engines: dict[str, Engine]) -> dict[str, Any]:
    """Every figure of one stream; `engines`: small and large."""
    upstreams = Upstreams(engines)
    began = time.monotonic()
    async with _gateway(stream, upstreams) as (url, data, log), aiohttp.ClientSession() as session:
        at_once = asyncio.Semaphore(AT_ONCE)
        # As many tasks as requests: they begin in their order, a few at a time.
        rows = await asyncio.gather(*[_ask(session, url, stream, text, at_once) for text in stream.texts])
        await asyncio.sleep(_LAST_OUTCOMES_S)
        said = await asyncio.to_thread(_explained, data)
        refused = log.read_text(encoding="utf-8").count('"event":"judge_refused"')
    wall_s = time.monotonic() - began
    spent = {name: asked.figures() for name, asked in upstreams.asked.items()}
    # What the large engine would have said where it was not asked; nobody pays for that.
    large = [
        row.answer if row.engine == "large" else await engines["large"].would_say(stream.body(row.text))
        for row in rows
    ]
    return figures(stream, rows, large, spent) | {
        "said": said,
        "judges_refused": refused,
        "wall_s": wall_s,
    }


def figures(
    stream: Stream, rows: list[Answered], large: list[str], spent: dict[str, dict[str, float]]
) -> dict[str, Any]:
    """Shares, quality and money; `large`: what it said, or would have said, to each request."""
    right = [stream.right[row.text] for row in rows]
    quality = [stream.grade(row.answer, one) for row, one in zip(rows, right, strict=True)]
    reference = [stream.grade(said, one) for said, one in zip(large, right, strict=True)]
    away = [row.engine != "large" for row in rows]
    so_far, most, violations = 0.0, 0.0, 0
    for count, (ours, theirs) in enumerate(zip(quality, reference, strict=True), 1):
        so_far += theirs - ours
        most = max(most, so_far / count)
        violations += so_far / count > MAX_LOSS
    paid = sum(row.usd for row in rows)
    # An answer of the large engine costs what it costs on average where it answered.
    of_large = [row.usd for row in rows if row.engine == "large"]
    always = sum(of_large) / max(1, len(of_large)) * len(rows)
    learning = sum(each["usd"] for each in spent.values()) - paid
    settings = LearningSettings()
    allowed = always / len(rows) * settings.advanced.starting_requests + settings.spend_share * (
        always - paid
    )
    third = max(1, len(rows) // 3)
    return {
        "stream": stream.key,
        "requests": len(rows),
        "offloaded": sum(away) / len(rows),
        "by_hundreds": [sum(away[n : n + 100]) for n in range(0, len(away), 100)],
        "last_third": sum(away[-third:]) / third,
        "by_engine": {
            name: sum(row.engine == name for row in rows) for name in sorted({row.engine for row in rows})
        },
        "first": away.index(True) + 1 if any(away) else None,
        "quality": sum(quality) / len(rows),
        "quality_large": sum(reference) / len(rows),
        "most_lost": most,
        "violations": violations,
        "saved": (always - paid - learning) / always,
        "learning": learning / always,
        "learning_allowed": allowed / always,
        "asked": spent,
        "latency_p50_s": sorted(row.latency_s for row in rows)[len(rows) // 2],
    }


async def _ask(
    session: aiohttp.ClientSession, url: str, stream: Stream, text: str, at_once: asyncio.Semaphore
) -> Answered:
    headers = {"Authorization": "Bearer client"}
    async with at_once:
        began = time.monotonic()
        limit = aiohttp.ClientTimeout(total=600)
        async with session.post(
            f"{url}/v1/chat/completions", json=stream.body(text), headers=headers, timeout=limit
        ) as got:
            told = await got.json()
            assert got.status == 200, told
            engine = got.headers.get("x-understudy-engine", "")
        latency_s = time.monotonic() - began
        answer, usage = told["choices"][0]["message"]["content"], told.get("usage") or {}
        paid = (
            usd(engine, usage["prompt_tokens"], usage["completion_tokens"]) if engine in USD_PER_MTOK else 0.0
        )
        if stream.tells(text):
            right = stream.right[text]
            said = {"completion_id": told["id"], "score": stream.grade(answer, right)}
            if stream.corrects:
                said |= {"correction": right, "messages": stream.body(text)["messages"]}
            await _tell(session, url, headers, said)
        return Answered(text, engine, answer, paid, latency_s)


async def _tell(
    session: aiohttp.ClientSession, url: str, headers: dict[str, str], body: dict[str, Any]
) -> None:
    """Feedback, said again where the gateway has not written the answer yet."""
    for _ in range(_FEEDBACK_TRIES):
        async with session.post(f"{url}/v1/feedback", json=body, headers=headers) as got:
            if got.status < 400:
                return
            why = await got.text()
        await asyncio.sleep(1)
    raise AssertionError(f"feedback was not taken: {why}")


@asynccontextmanager
async def _gateway(stream: Stream, upstreams: Upstreams) -> AsyncIterator[tuple[str, Path, Path]]:
    """The gateway's address, data folder and log."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="understudy-effect-") as name:
        folder = Path(name)
        async with upstreams.serving() as address:
            config, log = folder / "config.yaml", folder / "log"
            config.write_text(json.dumps(settings(stream, address, folder / "data", port)), encoding="utf-8")
            command = [sys.executable, "-m", "understudy", "serve", "--config", str(config)]
            with started(command, log) as process:
                url = f"http://127.0.0.1:{port}"
                await gateway_ready(url, process, log, within_s=_READY_WITHIN_S)
                yield url, folder / "data", log


def settings(stream: Stream, address: str, data: Path, port: int) -> dict[str, Any]:
    """Nothing but who answers, at which price, and where; a task's labels where it is one."""
    engines = {
        name: {
            "base_url": f"{address}/{name}/v1",
            "api_key": "none",
            "model": name,
            "price": {"input_usd_per_mtok": prompt, "output_usd_per_mtok": completion},
        }
        for name, (prompt, completion) in USD_PER_MTOK.items()
    }
    model: dict[str, Any] = {"engines": ["small", "large"], "policy": "few_shot"}
    if stream.task:
        model["tasks"] = {"intent": {"labels": list(stream.task), "system": "^Classify"}}
    return {
        "listen": {"port": port},
        "admin": {"enabled": False},
        "engines": engines,
        "models": {"assistant": model},
        "memory": {"data_dir": str(data)},
    }


def _explained(data: Path) -> str:
    """What the gateway says to whoever asks why so little is answered by the small engine."""
    command = [sys.executable, "-m", "understudy", "learn", "explain", "--data", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return (done.stdout + done.stderr).strip()
