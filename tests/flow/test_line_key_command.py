"""Engines whose key a command prints: it is what they are sent, never the client's, and a failure is told in words."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flow.line import line, upstream

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
