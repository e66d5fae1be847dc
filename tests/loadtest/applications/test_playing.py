"""Applications over sockets: carried out by their client and handed over whole, against an endpoint that echoes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from click.testing import CliRunner

from loadtest.__main__ import load
from loadtest.applications.playing import Player, first_model, play_all
from loadtest.applications.shapes import Application, chain, map_reduce
from loadtest.applications.summary import summary, told
from loadtest.errors import EndpointError
from loadtest.plan import Target
from tests.aiohttp_server import aiohttp_server


class Endpoint:
    """Answers a chat with a digest of what it was asked; refuses what `refuses` says."""

    def __init__(self) -> None:
        self.chats: list[dict[str, Any]] = []
        self.refuses = ""
        self.origin = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/models"):
            return web.json_response({"data": [{"id": "first"}]})
        body = await request.json()
        if not request.path.endswith("/chat/completions"):
            return web.json_response({"error": {"message": "no such path"}}, status=404)
        self.chats.append(body)
        text = body["messages"][-1]["content"]
        if self.refuses and self.refuses in text:
            return web.json_response({"error": {"message": "full"}}, status=503)
        answer = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        usage = {"prompt_tokens": len(text), "completion_tokens": 4}
        return web.json_response({"choices": [{"message": {"content": answer}}], "usage": usage})


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    made = Endpoint()
    async with aiohttp_server(made.handle) as made.origin:
        yield made


async def played(endpoint: Endpoint, *applications: Application, by_server: bool = False) -> list[Any]:
    async with aiohttp.ClientSession() as session:
        player = Player(session, Target(endpoint.origin), "m", rtt_s=0.0)
        return await play_all(player, applications, by_server=by_server, at_once=2)


async def test_a_chain_carries_each_answer_to_the_next_call(endpoint: Endpoint) -> None:
    (one,) = await played(endpoint, chain("k", 4, chunk_tokens=8))
    assert not one.error and one.requests == one.calls == 4
    first = endpoint.chats[0]["messages"][-1]["content"]
    said = hashlib.blake2b(first.encode(), digest_size=8).hexdigest()
    assert f"Refine: {said} by" in endpoint.chats[1]["messages"][-1]["content"]
    assert one.completion_tokens == 16 and one.prompt_tokens > 100


async def test_maps_are_asked_before_their_reduction(endpoint: Endpoint) -> None:
    (one,) = await played(endpoint, map_reduce("k", 5, chunk_tokens=8))
    assert one.requests == 6 and one.result
    assert endpoint.chats[-1]["messages"][-1]["content"].startswith("Combine: ")


async def test_a_refused_call_fails_its_application_and_no_other(endpoint: Endpoint) -> None:
    endpoint.refuses = "Combine"
    bad, good = await played(endpoint, map_reduce("k", 3, chunk_tokens=8), chain("k", 2, chunk_tokens=8))
    assert "503" in bad.error and "full" in bad.error and not bad.result
    assert good.result and not good.error


async def test_an_endpoint_without_runs_is_told_of(endpoint: Endpoint) -> None:
    (one,) = await played(endpoint, chain("k", 2), by_server=True)
    assert "/runs: HTTP 404" in one.error and one.requests == 1


async def test_the_first_listed_model_is_asked_for(endpoint: Endpoint) -> None:
    async with aiohttp.ClientSession() as session:
        assert await first_model(session, Target(endpoint.origin)) == "first"
        with pytest.raises(EndpointError, match="cannot be asked"):
            await first_model(session, Target("http://127.0.0.1:9"))


async def test_a_report_counts_failures_and_tells_equal_results_apart_from_others(endpoint: Endpoint) -> None:
    chains = [chain(f"{n}", 2, chunk_tokens=8) for n in range(3)]
    same = [summary(await played(endpoint, *chains), took_s=1.0)["results_digest"] for _ in range(2)]
    other = summary(await played(endpoint, chain("x", 2, chunk_tokens=8)), took_s=1.0)
    assert same[0] == same[1] != other["results_digest"]
    endpoint.refuses = "Summarize"
    failed = summary(await played(endpoint, *chains), took_s=1.0)
    assert failed["failed"] == 3 and not failed["latency_s"] and sum(failed["errors"].values()) == 3
    text = told({**failed, "app": "chain", "orchestrate": "client", "rtt_ms": 0.0})
    assert "3 failed" in text and "3 x POST" in text


def test_the_command_plays_and_writes_its_report(mock: Any, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    options = ["--base-url", mock.url, "--app", "chain", "--orchestrate", "client", "--rtt-ms", "0"]
    options += ["--applications", "2", "--width", "3", "--chunk-tokens", "8", "--json", str(report)]
    ran = CliRunner().invoke(load, ["apps", *options])
    assert ran.exit_code == 0, ran.output
    written = json.loads(report.read_text())
    assert (written["applications"], written["failed"], written["requests"]) == (2, 0, 6)
    refused = CliRunner().invoke(load, ["apps", *options[:5], "server", *options[6:]])
    assert refused.exit_code == 1 and "/v1/runs: HTTP" in refused.output
