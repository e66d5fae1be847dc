"""Engines whose key a command prints: it is what they are sent, never the client's, and a failure is told in words."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.flow.line import Asked, line, upstream
from tests.patience import PATIENCE_S
from understudy.background.engine_watch import EngineWatch

SECRET = "t0ken-that-nobody-may-see"
CLIENTS = {"Authorization": "Bearer sk-client"}


def config(url: str, *command: str, **engine: Any) -> dict[str, Any]:
    cloud = {"base_url": url, "model": "m", "api_key_command": list(command), **engine}
    return {"engines": {"cloud": cloud}, "models": {"m": {"engines": ["cloud"]}}, "memory": None}


@pytest.mark.parametrize(
    ("engine", "sent"),
    [
        ({}, ("Authorization", f"Bearer {SECRET}")),
        ({"kind": "azure"}, ("Authorization", f"Bearer {SECRET}")),
    ],
    ids=["openai", "azure"],
)
async def test_what_a_command_prints_is_sent_instead_of_the_clients_key(
    engine: dict[str, Any], sent: tuple[str, str]
) -> None:
    async with upstream() as behind:
        printing = (sys.executable, "-c", f"print('{SECRET}')")
        async with line(config(behind.url, *printing, **engine)) as gate:
            for _ in range(2):
                assert (await gate.chat("hi", CLIENTS, model="m")).status == 200
        chats = [asked for asked in behind.asked if asked.path.endswith("/chat/completions")]
        assert len(chats) == 2
        for asked in chats:
            assert asked.headers[sent[0]] == sent[1]
            assert "sk-client" not in str(asked.headers) and "api-key" not in asked.headers


async def test_a_command_that_fails_is_502_in_words_and_nothing_it_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with upstream() as behind:
        failing = (sys.executable, "-c", f"import sys; print('{SECRET}'); sys.exit('{SECRET}')")
        async with line(config(behind.url, *failing)) as gate:
            answer = await gate.chat("hi", CLIENTS, model="m")
            told = answer.body.decode()
        assert answer.status == 502 and "exited with status 1" in told and SECRET not in told
        assert not behind.asked
    logged = capsys.readouterr()
    assert SECRET not in logged.out + logged.err


async def test_a_token_that_an_upstream_quotes_in_an_error_is_shown_to_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = tmp_path / "tokens"
    # Each call prints another token, which has ended half a second later.
    printing = f"""
import json, pathlib, time
count = pathlib.Path({str(tokens)!r})
number = len(count.read_text()) if count.exists() else 0
count.write_text("x" * (number + 1))
print(json.dumps({{"token": "{SECRET}-%d" % number, "expires_at": time.time() + 0.5}}))
"""
    memory = {"data_dir": str(tmp_path / "data"), "examples": {"enabled": False}}

    async def quoting(request: web.Request, asked: Asked) -> web.StreamResponse:
        said = f"Nobody knows {request.headers['Authorization']}."
        return web.json_response({"error": {"message": said, "type": "x", "code": "bad_key"}}, status=500)

    async with upstream() as behind:
        behind.script = quoting
        settings = config(behind.url, sys.executable, "-c", printing) | {"memory": memory}
        async with line(settings) as gate:
            watch = gate.gateway.parts.owned(EngineWatch)[0]
            assert gate.gateway.memory is not None
            store = gate.gateway.memory.store
            for _ in range(2):
                assert (await gate.chat("hi", CLIENTS, model="m")).status == 500
                shown = ""
                async with asyncio.timeout(PATIENCE_S):
                    while "Nobody knows Bearer [key]" not in shown:
                        await asyncio.sleep(0.1)
                        await asyncio.to_thread(watch.look)
                        shown = str([row.error for row in store.jobs.engine_states.now(time.time())])
                assert SECRET not in shown
                await asyncio.sleep(0.6)
    assert len(tokens.read_text()) >= 2
    logged = capsys.readouterr()
    assert SECRET not in logged.out + logged.err
