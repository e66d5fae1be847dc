"""What is known of a prompt is computed while the rest is unknown: over real sockets, at replicas that act as vLLM does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.aiohttp_server import aiohttp_server
from tests.flow.line import Asked, Line, Upstream, completion, line
from tests.flow.line import upstream as scripted
from tests.flow.test_line_runs import EXACT_ONLY, KEY, get, prompt, say
from tests.patience import until

RULES = "Answer in one sentence, and say which of the documents told you so. " * 30
TWO_STEPS = {
    "inputs": {"question": "last_user", "rules": "text"},
    "steps": {
        "draft": {"chat": "Draft: {{question}}", "model": "m"},
        "answer": {"chat": "{{rules}}\n{{question}}\nDraft: {{draft}}", "model": "m"},
    },
    "output": "answer",
}
FOLD = {
    "inputs": {"question": "last_user", "documents": "texts"},
    "steps": {
        "answer": {
            "fold": "{{documents}}",
            "chat": "Answer {{question}} by this document:\n{{item}}\nSo far: {{so_far}}",
            "model": "m",
        }
    },
    "output": "answer",
}
BRANCH = {
    "inputs": {"question": "last_user", "rules": "text"},
    "steps": {
        "long": {"when": "{{question}}", "contains": "capital"},
        "draft": {"chat": "Draft: {{question}}", "model": "m"},
        "taken": {"chat": "{{rules}} Taken: {{draft}}", "model": "m", "if": "long"},
        "not_taken": {"chat": "{{rules}} Not: {{draft}}", "model": "m", "unless": "long"},
        "answer": {"first_of": ["{{not_taken}}", "{{taken}}"]},
    },
    "output": "answer",
}


@dataclass
class Servers:
    """Two replicas. What is asked for one token is answered when `let` is set; everything else once its draft is."""

    replicas: list[Upstream]
    refuses: bool = False
    let: asyncio.Event = field(default_factory=asyncio.Event)
    draft: asyncio.Event = field(default_factory=asyncio.Event)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def script(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        if not request.path.endswith("/chat/completions"):
            return web.json_response({})
        if asked.json.get("max_tokens") == 1:
            self.came.set()
            if self.refuses:
                return web.json_response({"error": {"message": "Roles must alternate."}}, status=400)
            try:
                await self._let(request)
            except ConnectionResetError:
                self.left.set()
                raise
            usage = {"prompt_tokens": 520, "completion_tokens": 1, "total_tokens": 521}
            return web.json_response(completion("A", finish_reason="length", usage=usage))
        if prompt(asked).startswith("Draft"):
            await self.draft.wait()
        return await say(request, asked, "fine")

    async def _let(self, request: web.Request) -> None:
        while not self.let.is_set():
            await asyncio.sleep(0.01)
            if request.transport is None or request.transport.is_closing():
                raise ConnectionResetError

    def chats(self, *, warm: bool) -> list[tuple[int, dict[str, Any]]]:
        """(replica, body) of what was asked: prefixes, or everything else."""
        return [
            (at, asked.json)
            for at, replica in enumerate(self.replicas)
            for asked in replica.asked
            if asked.path.endswith("/chat/completions") and (asked.json.get("max_tokens") == 1) is warm
        ]


def config(servers: Servers, tmp_path: Path, **engine: Any) -> dict[str, Any]:
    urls = [replica.url for replica in servers.replicas]
    advanced = {"background_priority": 9, "priority": 1}
    own = {"kind": "vllm", "base_urls": urls, "api_key": "none", "model": "tiny", "advanced": advanced}
    return {
        "engines": {"own": own | engine},
        "models": {"m": {"engines": ["own"], "policy": "fixed"}},
        "memory": {"data_dir": str(tmp_path / "data"), **EXACT_ONLY},
        "workflows": {"two": TWO_STEPS, "fold": FOLD, "branch": BRANCH},
    }


@asynccontextmanager
async def site(tmp_path: Path, **engine: Any) -> AsyncIterator[tuple[Line, Servers]]:
    async with scripted() as one, scripted() as other:
        servers = Servers([one, other])
        one.script = other.script = servers.script
        async with line(config(servers, tmp_path, **engine)) as gate:
            yield gate, servers


def asked(model: str = "two", **inputs: Any) -> dict[str, Any]:
    said = {} if model == "fold" else {"rules": RULES}
    messages = [{"role": "user", "content": "What is the capital of Norway?"}]
    return {"model": model, "messages": messages, "understudy": {"inputs": said | inputs}}


async def called(gate: Line, body: dict[str, Any]) -> asyncio.Task[Any]:
    return asyncio.create_task(gate.post("/chat/completions", body, KEY))


async def step(gate: Line, got: Any, id: str) -> dict[str, Any]:
    assert got.status == 200, got.body
    run = (await get(gate, f"/runs/{got.headers['x-understudy-run']}")).json
    return dict(next(each for each in run["steps"] if each["id"] == id))


def warmed(gate: Line) -> int:
    """Tokens that were computed early, of all runs that are under way."""
    assert gate.gateway._runs is not None
    return sum(run.used.warmed_tokens for run in gate.gateway._runs.runs.live.values())


async def test_a_known_prefix_is_computed_at_the_replica_that_gets_the_step(tmp_path: Path) -> None:
    async with site(tmp_path) as (gate, servers):
        call = await called(gate, asked())
        await asyncio.wait_for(servers.came.wait(), 60)
        servers.let.set()
        await until(lambda: warmed(gate) == 520, "the prefix is computed")
        servers.draft.set()
        got = await call
        ((at, warm),) = servers.chats(warm=True)
        real = [
            (place, body) for place, body in servers.chats(warm=False) if body_text(body).startswith(RULES)
        ]
        ((place, body),) = real
        assert place == at, "the step goes where its prefix is"
        assert body_text(body).startswith(body_text(warm)) and body_text(warm).endswith("Draft: ")
        assert warm["cache_salt"] == body["cache_salt"] and warm["model"] == body["model"] == "tiny"
        assert warm["priority"] == 9 and body["priority"] == 1, "whoever waits goes first"
        assert not warm.get("stream") and body["stream"]
        row = await step(gate, got, "answer")
        assert row["warmed_tokens"] == 520
        assert row["usage"]["prompt_tokens"] == 7 and got.json["usage"]["prompt_tokens"] == 14, "booked apart"


async def test_the_step_never_waits_for_its_prefix(tmp_path: Path) -> None:
    async with site(tmp_path) as (gate, servers):
        call = await called(gate, asked())
        await asyncio.wait_for(servers.came.wait(), 60)
        servers.draft.set()
        got = await call
        assert got.status == 200 and not servers.let.is_set()
        await asyncio.wait_for(servers.left.wait(), 60)


async def test_whoever_waits_for_a_place_gets_the_one_of_a_prefix(tmp_path: Path) -> None:
    async with site(tmp_path, max_in_flight=2) as (gate, servers):
        call = await called(gate, asked())
        await asyncio.wait_for(servers.came.wait(), 60)
        plain = {"model": "m", "messages": [{"role": "user", "content": "Draft: wait"}]}
        others = [await called(gate, plain) for _ in range(4)]
        await asyncio.wait_for(servers.left.wait(), 60)
        servers.draft.set()
        assert {(await other).status for other in others} == {200} and (await call).status == 200


async def test_each_turn_of_a_fold_has_its_text_computed_while_others_answer(tmp_path: Path) -> None:
    async with site(tmp_path) as (gate, servers):
        servers.let.set()
        documents = [f"Document {n}. " + "The fjord is long. " * 80 for n in range(3)]
        got = await gate.post("/chat/completions", asked("fold", documents=documents), KEY)
        assert got.status == 200 and got.text == "fine"
        texts = sorted(body_text(body) for _, body in servers.chats(warm=True))
        assert len(texts) == 2 and all(text.endswith("So far: ") for text in texts)
        assert [f"Document {n}." in texts[n - 1] for n in (1, 2)] == [True, True]
        turns = [place for place, body in servers.chats(warm=False) if "Document 1." in body_text(body)]
        early = [place for place, body in servers.chats(warm=True) if "Document 1." in body_text(body)]
        assert turns == early, "a turn goes where its text is"
        rows = [await step(gate, got, f"answer[{n}]") for n in range(3)]
        assert [row["warmed_tokens"] for row in rows] == [0, 520, 520]


async def test_a_branch_that_is_not_taken_has_nothing_computed(tmp_path: Path) -> None:
    async with site(tmp_path) as (gate, servers):
        servers.let.set()
        call = await called(gate, asked("branch"))
        await until(lambda: warmed(gate) > 0, "a prefix is computed")
        servers.draft.set()
        assert (await call).status == 200
        assert [body_text(body)[-7:] for _, body in servers.chats(warm=True)] == ["Taken: "]


async def test_nothing_is_computed_early_where_it_is_not_certain_or_not_asked_for(tmp_path: Path) -> None:
    async with site(tmp_path, kind="openai", advanced={}) as (gate, servers):
        servers.draft.set()
        assert (await gate.post("/chat/completions", asked(), KEY)).status == 200
        assert not servers.chats(warm=True), "somebody else's engine, and the step does not ask for it"
    async with site(tmp_path) as (gate, servers):
        servers.draft.set()
        assert (await gate.post("/chat/completions", asked(rules="Be brief."), KEY)).status == 200
        assert not servers.chats(warm=True), "it is short"


PRICE = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 1.0}
SECRET = "a-secret-of-this-test"
BUDGET = {"budgets": [{"usd": 10, "per": "day"}]}
WATCHED: dict[str, dict[str, Any]] = {
    "a guardrail of requests": {"guardrails": {"words": {}}},
    "a guardrail of answers": {"guardrails": {"words": {"when": "after"}}},
    "a guardrail of this model": {"guardrails": {"words": {"models": ["m"]}}},
    "a key that may not use the model": {"limits": {"models": ["two"]}},
}
OPEN: dict[str, dict[str, Any]] = {
    "a key": {"limits": {"models": ["two", "m"], "requests_per_minute": 1000}},
    "a key with a budget": {"limits": BUDGET},
    "a key with tokens a minute": {"limits": {"tokens_per_minute": 100_000}},
    "a tenant with a budget": {"tenants": {"default": {"limits": BUDGET}}},
    "end users with a budget": {"tenants": {"default": {"each_user": BUDGET}}},
    "a guardrail of another model": {"guardrails": {"words": {"models": ["other"]}}},
    "a guardrail of another tenant": {"guardrails": {"words": {"advanced": {"tenants": ["acme"]}}}},
}


@pytest.mark.parametrize("what", [*WATCHED, *OPEN])
async def test_nothing_is_computed_early_past_guardrails_models_and_budgets(
    what: str, tmp_path: Path
) -> None:
    async def allows(request: web.Request) -> web.Response:
        return web.json_response({"action": "allow"})

    async with aiohttp_server(allows) as guard, scripted() as one, scripted() as other:
        servers = Servers([one, other])
        one.script = other.script = servers.script
        servers.let.set()
        servers.draft.set()
        made = config(servers, tmp_path, price=PRICE)
        more = {**(WATCHED | OPEN)[what]}
        limits = more.pop("limits", {})
        for name, settings in more.get("guardrails", {}).items():
            more["guardrails"] = {name: {"url": f"{guard}/check", **settings}}
        made |= {"keys": {"web": {"secret": SECRET, "limits": limits}}, **more}
        async with line(made) as gate:
            got = await gate.post("/chat/completions", asked(), {"Authorization": f"Bearer {SECRET}"})
            may_use = "models" not in limits or "m" in limits["models"]
            assert got.status == (200 if may_use else 403), got.body
            assert bool(servers.chats(warm=True)) is (what in OPEN)


async def test_a_prefix_that_its_engine_refuses_is_not_asked_for_again(tmp_path: Path) -> None:
    async with site(tmp_path) as (gate, servers):
        servers.refuses = True
        for _ in range(2):
            call = await called(gate, asked())
            await asyncio.wait_for(servers.came.wait(), 60)
            servers.draft.set()
            got = await call
            assert got.status == 200 and (await step(gate, got, "answer"))["usage"]["prompt_tokens"] == 7
        assert len(servers.chats(warm=True)) == 1


async def test_a_client_that_names_the_engine_makes_it_certain(tmp_path: Path) -> None:
    """The policy that learns puts examples into prompts, unless the client wants none."""
    async with scripted() as one, scripted() as other:
        servers = Servers([one, other])
        one.script = other.script = servers.script
        servers.let.set()
        servers.draft.set()
        made = config(servers, tmp_path)
        prices = {"price": {"input_usd_per_mtok": 1}}
        made["engines"] = {"own": made["engines"]["own"] | prices, "big": made["engines"]["own"] | prices}
        made["models"] = {"m": {"engines": ["own", "big"], "policy": "in_context"}}
        made["memory"] = {"data_dir": str(tmp_path / "data")}
        async with line(made) as gate:
            named = KEY | {"x-understudy-engine": "big", "x-understudy-examples": "0"}
            assert (await gate.post("/chat/completions", asked(), named)).status == 200
            assert len(servers.chats(warm=True)) == 1
            assert (await gate.post("/chat/completions", asked(rules=f"Please! {RULES}"), KEY)).status == 200
            assert len(servers.chats(warm=True)) == 1


async def test_a_client_that_leaves_ends_what_is_computed_early(tmp_path: Path) -> None:
    async with site(tmp_path) as (gate, servers):
        call = await called(gate, asked())
        await asyncio.wait_for(servers.came.wait(), 60)
        call.cancel()
        await asyncio.wait([call])
        await asyncio.wait_for(servers.left.wait(), 60)
        servers.draft.set()


def body_text(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])
