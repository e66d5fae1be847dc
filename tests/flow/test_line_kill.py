"""kill -9 in the middle of traffic: what the store acknowledged is there afterwards, and the database is intact."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.flow.line import MODELS
from tests.flow.process import START_S
from tests.patience import PATIENCE_S

CONFIG = """
listen: {{port: 0, grace_s: 1}}
log: {{requests: false}}
engines:
  small: {{kind: simulated, role: understudy, ttft_ms: 0, token_ms: 0, facts: 200}}
  large: {{kind: simulated, role: lead, ttft_ms: 0, token_ms: 0, facts: 200}}
models:
  gpt-4o: {{engines: [small, large], policy: few_shot, proof: off}}
memory:
  data_dir: {data}
  advanced: {{embedding_cache_dir: {models}, embedding_deadline_ms: 5000}}
"""


CLIENT = {"Authorization": "Bearer sk-client"}


def stored(data: Path) -> tuple[set[str], int]:
    """(ids of the requests that have an example, exact answers), from a database that must be intact."""
    with sqlite3.connect(data / "understudy.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        examples = {row[0] for row in db.execute("SELECT request_id FROM examples")}
        (answers,) = db.execute("SELECT count(*) FROM exact_answers").fetchone()
    db.close()
    return examples, answers


async def _listening(log: asyncio.StreamReader) -> tuple[str, int]:
    """Where it listens, and its worker's process id, once its log says so."""
    lines: list[str] = []
    async with asyncio.timeout(START_S):
        while line := (await log.readline()).decode():
            lines.append(line)
            if '"event":"listening"' in line:
                told = json.loads(line)
                return told["url"], told["pid"]
    raise AssertionError("".join(lines))


async def one_life(config: Path, number: int, acknowledged: set[str]) -> None:
    """Start, ask for a while, note what `settled` vouches for, ask on, and be killed at a random moment."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "understudy",
        "serve",
        "--admin",
        "off",
        "--config",
        str(config),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        url, worker = await _listening(process.stderr)
        async with aiohttp.ClientSession() as session:
            answered = [
                await ask(session, url, f"Question {number}-{i} about nothing in particular?")
                for i in range(5)
            ]
            async with asyncio.timeout(PATIENCE_S):
                while (await session.get(f"{url}/readyz?settled=1")).status != 200:
                    await asyncio.sleep(0.01)
            acknowledged.update(answered)
            asking = asyncio.gather(
                *(ask(session, url, f"Late question {number}-{i}?") for i in range(20)),
                return_exceptions=True,
            )
            await asyncio.sleep(random.Random(number).random() * 0.05)
            os.kill(worker, signal.SIGKILL)
            process.kill()
            await asking
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await process.stderr.read()


async def ask(session: aiohttp.ClientSession, url: str, question: str) -> str:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": question}]}
    async with session.post(
        f"{url}/v1/chat/completions", json=body, headers={"x-understudy-engine": "large", **CLIENT}
    ) as answer:
        assert answer.status == 200
        await answer.read()
        return answer.headers["x-understudy-decision-id"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("lives", [1, pytest.param(20, marks=pytest.mark.slow)])
async def test_nothing_acknowledged_is_lost(tmp_path: Path, lives: int) -> None:
    data, config = tmp_path / "data", tmp_path / "config.yaml"
    config.write_text(CONFIG.format(data=data, models=MODELS))
    acknowledged: set[str] = set()
    for number in range(lives):
        await one_life(config, number, acknowledged)
        examples, _ = stored(data)
        assert acknowledged <= examples
    assert len(acknowledged) == 5 * lives
