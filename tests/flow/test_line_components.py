"""Workflows over components that are other servers: what they are sent, and what becomes of answers that are none."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from aiohttp import web

from tests.flow.line import Asked, Got, Line, Upstream, line
from tests.flow.line import upstream as scripted
from tests.flow.test_line_runs import EXACT_ONLY, KEY, prompt, say
from tests.patience import until

CANARY = "sk-canary-of-components"
ASK = {
    "inputs": {"question": "last_user", "documents": "texts"},
    "steps": {
        "index": {"ingest": "{{documents}}"},
        "found": {"search": "{{question}}", "in": "{{index}}", "k": 3},
        "web": {"search": "{{question}}", "in": "web", "k": 2},
        "all": {"merge": ["{{found}}", "{{web}}"]},
        "top": {"rerank": "{{all}}", "by": "{{question}}", "k": 2},
        "answer": {"chat": "{{question}}: {{top}}", "model": "m"},
    },
    "output": "answer",
}
ORDER = {
    "inputs": {"dish": "last_user"},
    "steps": {
        "placed": {"tool": "order", "effects": True, "args": {"dish": "{{dish}}", "count": "2"}},
        "told": {"chat": "Tell them: {{placed}}", "model": "m"},
    },
    "output": "told",
}
DOCUMENTS = ["fish and chips", "chips without fish", "green peas"]


def words(text: str) -> list[float]:
    """A vector of words."""
    return [1.0 + text.count("fish"), 0.5 + text.count("chips"), 0.1 + text.count("peas")]


class Components:
    """One server that is all of them. Each may be told to answer something else."""

    def __init__(self, behind: Upstream) -> None:
        self.instead: dict[str, Callable[[Asked], web.StreamResponse]] = {}
        self.waits: dict[str, asyncio.Event] = {}
        self.left = asyncio.Event()
        self.asked: dict[str, list[Asked]] = {}
        behind.script = self.script

    async def script(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        name = request.path.rpartition("/")[2]
        self.asked.setdefault(name, []).append(asked)
        if name in self.waits:
            self.waits[name].set()
            while request.transport is not None and not request.transport.is_closing():
                await asyncio.sleep(0.01)
            self.left.set()
        if name in self.instead:
            return self.instead[name](asked)
        if name == "completions":
            return await say(request, asked, f"<{prompt(asked)}>")
        return web.json_response(_ANSWERS[name](asked))


def _embeddings(asked: Asked) -> Any:
    return {"data": [{"index": n, "embedding": words(text)} for n, text in enumerate(asked.json["input"])]}


def _rerank(asked: Asked) -> Any:
    scored = [{"index": n, "relevance_score": len(text)} for n, text in enumerate(asked.json["documents"])]
    return {"results": scored[::-1]}


_ANSWERS: dict[str, Callable[[Asked], Any]] = {
    "embeddings": _embeddings,
    "rerank": _rerank,
    "search": lambda asked: {"hits": [{"text": "the chippy opens at noon, and sells fish"}, {"text": "x"}]},
    "order": lambda asked: {"id": "order 7"},
    "models": lambda asked: {"data": []},
}


@pytest.fixture
async def behind() -> AsyncIterator[Upstream]:
    async with scripted() as made:
        yield made


@pytest.fixture
async def components(behind: Upstream) -> Components:
    return Components(behind)


@pytest.fixture
async def gate(behind: Upstream, components: Components, tmp_path: Path) -> AsyncIterator[Line]:
    order = {"type": "object", "properties": {"dish": {"type": "string"}, "count": {"type": "integer"}}}
    config = {
        "engines": {"big": {"kind": "openai", "base_url": behind.url, "api_key": "sk-up"}},
        "models": {"m": {"engines": ["big"], "policy": "fixed"}},
        "memory": {"data_dir": str(tmp_path / "data"), **EXACT_ONLY},
        "components": {
            "vectors": {
                "kind": "openai",
                "base_url": behind.url,
                "model": "e",
                "api_key": CANARY,
                "batch": 2,
            },
            "ranker": {"kind": "rerank", "url": f"{behind.url}/rerank", "api_key": CANARY},
            "web": {
                "kind": "search",
                "url": f"{behind.url}/search?q={{query}}&count={{k}}",
                "headers": {"X-Subscription-Token": CANARY},
                "hits": "/hits",
                "text": ["/text"],
            },
            "order": {"kind": "tool", "url": f"{behind.url}/order", "args": order, "result": "/id"},
        },
        "workflows": {"ask": ASK, "order": ORDER},
    }
    async with line(config) as made:
        yield made


async def call(gate: Line, model: str = "ask", text: str = "fish?", **more: Any) -> Got:
    asked = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    if model == "ask":
        asked["understudy"] = {"inputs": {"documents": DOCUMENTS}}
    return await gate.post("/chat/completions", asked, KEY)


async def test_each_component_is_asked_for_its_part(gate: Line, components: Components) -> None:
    question = "where is fish? &count=9\r\nX-Evil: 1/../#"
    got = await call(gate, text=question)
    assert got.status == 200, got.body
    assert got.text == f"<{question}: the chippy opens at noon, and sells fish\nchips without fish>"
    sent = [text for asked in components.asked["embeddings"] for text in asked.json["input"]]
    assert sorted(sent) == sorted([*DOCUMENTS, question])
    (search,) = components.asked["search"]
    assert parse_qsl(urlsplit(search.path).query) == [("q", question), ("count", "2")]
    assert search.headers["X-Subscription-Token"] == CANARY and "X-Evil" not in search.headers
    assert {asked.headers["Authorization"] for asked in components.asked["rerank"]} == {f"Bearer {CANARY}"}
    figures = (await gate.session.get(gate.url.removesuffix("/v1") + "/metrics")).text
    assert re.search(
        r'understudy_component_items_total{ability="embed",component="vectors"} 4.0', await figures()
    )


BAD: dict[str, tuple[str, Any, str, str]] = {
    "a reranker that answers short": ("rerank", {"results": []}, "top", "0 scores for"),
    "an embedding of another size": (
        "embeddings",
        {"data": [{"embedding": [1.0]}] * 2},
        "index",
        "embeddings of 1",
    ),
    "hits without text": ("search", {"hits": [{"url": CANARY}]}, "web", "hit 1 has no text at /text"),
    "hits that are none": (
        "search",
        {"error": CANARY},
        "web",
        "nothing at /hits: its root is an object with error",
    ),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("what", BAD)
async def test_what_is_no_answer_fails_the_step_and_is_told(
    gate: Line, components: Components, what: str, stream: bool
) -> None:
    name, answer, step, says = BAD[what]
    assert (await call(gate)).status == 200
    components.instead[name] = lambda asked: web.json_response(answer)
    got = await call(gate, stream=stream)
    assert got.status == 502, got.body
    error = got.json["error"]
    assert error["code"] == "step_failed" and error["param"].startswith(step)
    assert says in error["message"] and CANARY not in json.dumps(got.json)


@pytest.mark.parametrize("name", ["rerank", "search", "embeddings"])
async def test_redirects_and_refusals_are_told_without_what_they_say(
    gate: Line, components: Components, name: str
) -> None:
    components.instead[name] = lambda asked: web.Response(
        status=302, headers={"Location": f"http://169.254.169.254/{CANARY}"}
    )
    got = await call(gate)
    assert got.status == 502 and "302" in got.json["error"]["message"] and CANARY not in str(got.body)
    components.instead[name] = lambda asked: web.Response(
        status=401, text=f"Incorrect API key provided: {CANARY}"
    )
    got = await call(gate)
    assert got.status == 502 and "401" in got.json["error"]["message"] and CANARY not in str(got.body)


async def test_an_effect_is_asked_for_once_with_a_key(gate: Line, components: Components) -> None:
    got = await call(gate, "order", "pie")
    assert got.text == "<Tell them: order 7>"
    (asked,) = components.asked["order"]
    assert asked.json == {"dish": "pie", "count": 2}
    assert asked.headers["Idempotency-Key"] == f"{got.headers['x-understudy-run']}:placed"
    components.instead["order"] = lambda asked: web.Response(status=503)
    got = await call(gate, "order", "pie")
    assert got.status == 502 and "503" in got.json["error"]["message"]
    assert len(components.asked["order"]) == 2


@pytest.mark.parametrize(
    ("model", "name"), [("ask", "embeddings"), ("ask", "rerank"), ("ask", "search"), ("order", "order")]
)
async def test_a_client_that_leaves_closes_the_connection_of_a_component(
    gate: Line, components: Components, model: str, name: str
) -> None:
    components.waits[name] = asyncio.Event()
    sent = asyncio.create_task(call(gate, model))
    await until(components.waits[name].is_set, "the component is asked")
    sent.cancel()
    await asyncio.wait([sent])
    await until(components.left.is_set, "its connection is closed")
