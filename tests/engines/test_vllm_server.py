"""vLLM over HTTP, against a server with vLLM's pages: what is sent, what is learnt of it, and when it counts as down."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from multidict import CIMultiDict

from engines.chat import ChatRequest
from engines.engine import CountsTokens, EngineInfo, EngineLoad, EngineRequest
from engines.errors import EngineError
from engines.placement import Placement, Rank
from engines.vllm_dialect import Dialect, Priorities
from engines.vllm_server import VLLMServer
from tests.engines.asking import asked, closed_port, request
from tests.engines.vllm_pages import Pages, pages
from tests.knobs import servers_of, timeouts

SECRET = b"s" * 32


@pytest.fixture
async def server() -> AsyncIterator[Pages]:
    async with pages() as made:
        yield made


@asynccontextmanager
async def vllm(url: str, **options: Any) -> AsyncIterator[VLLMServer]:
    info = options.pop("info", EngineInfo("small", model="tiny"))
    dialect = Dialect(options.pop("secret", SECRET), options.pop("priorities", None))
    engine = VLLMServer(info, url, **{"dialect": dialect, "poll_s": 0.01, "timeouts": timeouts()} | options)
    try:
        yield engine
    finally:
        await engine.aclose()


def chat(
    tenant: str = "", headers: dict[str, str] | None = None, body: bytes | None = None, **fields: Any
) -> EngineRequest:
    fields = {"model": "tiny", "messages": [{"role": "user", "content": "Hé?"}]} | fields
    plain = json.dumps(fields, ensure_ascii=False).encode()
    parsed = ChatRequest(body or plain, fields, "tiny", fields["messages"], stream=False, include_usage=False)
    sent = CIMultiDict(
        {"Content-Type": "application/json", "Content-Length": str(len(parsed.body)), **(headers or {})}
    )
    return EngineRequest("POST", "/chat/completions", sent, parsed.body, parsed, tenant)


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.005)


class TestWhatIsSent:
    async def test_a_tenant_has_a_salt_of_its_own_that_does_not_tell_who_it_is(self, server: Pages) -> None:
        async with vllm(server.url) as engine:
            for tenant in ("acme", "acme", "other"):
                await asked(engine, chat(tenant))
        first, again, other = (body["cache_salt"] for body in server.asked)
        assert first == again != other and "acme" not in first and len(first) == 32
        assert server.asked[0]["messages"] == [{"role": "user", "content": "Hé?"}]

    async def test_another_installation_has_other_salts(self, server: Pages) -> None:
        for secret in (SECRET, b"t" * 32):
            async with vllm(server.url, secret=secret) as engine:
                await asked(engine, chat("acme"))
        assert server.asked[0]["cache_salt"] != server.asked[1]["cache_salt"]

    @pytest.mark.parametrize("tenant", ["acme", ""])
    async def test_a_client_can_neither_choose_its_cache_nor_jump_the_queue(
        self, server: Pages, tenant: str
    ) -> None:
        async with vllm(server.url) as engine:
            await asked(engine, chat(tenant, cache_salt="theirs", priority=-100, top_k=5))
        sent = server.asked[0]
        assert sent.get("cache_salt") != "theirs" and "priority" not in sent and sent["top_k"] == 5

    async def test_priorities_are_the_operators(self, server: Pages) -> None:
        priorities = Priorities(clients=0, tenants={"acme": -5}, background=10)
        async with vllm(server.url, priorities=priorities) as engine:
            for tenant in ("acme", "other"):
                await asked(engine, chat(tenant))
            await asked(engine, replace(chat("acme"), background=True))
        assert [body["priority"] for body in server.asked] == [-5, 0, 10]
        assert server.asked[0]["cache_salt"] == server.asked[2]["cache_salt"]

    async def test_the_order_within_a_priority_is_that_of_the_line(self, server: Pages) -> None:
        def step(rank: Rank, left: float) -> EngineRequest:
            return replace(chat(), placement=Placement(rank, "r", work_left=left))

        urgent = replace(chat("acme"), placement=Placement(Rank.THROUGHPUT, "r", work_left=1e9))
        ordered = [urgent, step(Rank.LATENCY, 100), chat(), step(Rank.LATENCY, 9_000)]
        ordered += [step(Rank.GROUP, 100), step(Rank.GROUP, 1e12), step(Rank.THROUGHPUT, 1)]
        ordered += [replace(chat(), background=True)]
        priorities = Priorities(tenants={"acme": -1}, order=True)
        async with vllm(server.url, priorities=priorities) as engine:
            for one in ordered:
                await asked(engine, one)
        sent = [body["priority"] for body in server.asked]
        assert sent == sorted(sent) and len(set(sent)) == len(sent)
        assert sent[0] < 0 <= sent[1] and sent[-1] < 1000

    async def test_a_compressed_body_is_sent_plain(self, server: Pages) -> None:
        plain = json.dumps({"model": "tiny", "messages": []}).encode()
        what = chat("acme", {"Content-Encoding": "gzip"}, gzip.compress(plain), messages=[])
        async with vllm(server.url) as engine:
            await asked(engine, what)
        assert server.asked[0].keys() == {"model", "messages", "cache_salt"}
        assert "Content-Encoding" not in server.headers[0]

    async def test_without_salts_and_priorities_the_bytes_stay_as_they_came(self, server: Pages) -> None:
        what = chat(
            "acme", body=b' {"model": "tiny",  "messages": [ {"role":"user","content":"H\xc3\xa9?"}]}'
        )
        async with vllm(server.url, secret=None) as engine:
            assert engine._dialect.prepared(what) is what

    async def test_what_is_no_chat_is_passed_on(self, server: Pages) -> None:
        what = request(b'{"cache_salt": "x"}', "/embeddings")
        async with vllm(server.url) as engine:
            assert (await asked(engine, what))[0] == 404


class TestWhatIsLearnt:
    async def test_nobody_asks_the_server_anything_while_it_is_not_used(self, server: Pages) -> None:
        async with vllm(server.url):
            await asyncio.sleep(0.05)
        assert server.paths == []

    async def test_its_load_is_seen_with_what_others_ask_of_it(self, server: Pages) -> None:
        server.running, server.waiting, server.kv_use = 5, 7, 0.5
        async with vllm(server.url) as engine:
            assert engine.load() == EngineLoad()
            await until(lambda: engine.load().queued)
            assert engine.load() == EngineLoad(in_flight=5, queued=7, kv_use=0.5)
            single = servers_of(engine)
            assert single.load().utilisation == 0.5

    async def test_what_waits_inside_the_engine_counts_once(self, server: Pages) -> None:
        server.running, server.waiting = 1, 2
        async with vllm(server.url) as engine:
            await until(lambda: engine.load().queued)
            single = servers_of(engine)
            for _ in range(3):
                assert single.servers[0].took_slot()
            load = single.load()
            assert (load.in_flight, load.queued) == (1, 2)

    async def test_a_dead_engine_behind_a_living_server_is_down_and_comes_back(self, server: Pages) -> None:
        async with vllm(server.url) as engine:
            server.healthy = False
            with pytest.raises(EngineError):
                await engine.health()
            # A machine that stalls may ask so late that what was told is stale: it is asked until it is told again.
            single = servers_of(engine)
            await until(lambda: not single.load().open)
            server.healthy = True
            await until(lambda: engine.load().open)
            await engine.health()

    async def test_a_refused_connection_is_down(self) -> None:
        async with vllm(f"http://127.0.0.1:{closed_port()}/v1") as engine:
            with pytest.raises(EngineError):
                await engine.health()
            engine.load()
            await until(lambda: not engine.load().open)

    async def test_the_window_comes_from_the_server_unless_it_is_configured(self, server: Pages) -> None:
        async with vllm(server.url) as engine:
            single = servers_of(engine)
            engine.load()
            await until(lambda: single.info.context_tokens == 4096)
        async with vllm(server.url, info=EngineInfo("small", model="tiny", context_tokens=1000)) as engine:
            engine.load()
            await until(lambda: engine.load().kv_use is not None)
            assert engine.info.context_tokens == 1000

    async def test_a_restarted_server_may_have_another_window(self, server: Pages) -> None:
        async with vllm(server.url) as engine:
            engine.load()
            await until(lambda: engine.info.context_tokens == 4096)
            server.healthy, server.window = False, 8192
            await until(lambda: not engine.load().open)
            server.healthy = True
            await until(lambda: engine.load().open and engine.info.context_tokens == 8192)

    async def test_another_models_window_is_not_taken(self, server: Pages) -> None:
        server.model = "another"
        async with vllm(server.url) as engine:
            engine.load()
            await until(lambda: engine.load().kv_use is not None)
            assert engine.info.context_tokens is None


class TestCountingTokens:
    async def test_it_counts_text_and_messages_and_asks_once_for_each(self, server: Pages) -> None:
        async with vllm(server.url) as engine:
            for _ in range(2):
                assert await engine.count_tokens("one two three") == 3
                assert await engine.count_tokens([{"role": "user", "content": "one two"}]) == 2
        assert server.paths == ["/tokenize", "/tokenize"]

    async def test_it_counts_through_a_guard(self, server: Pages) -> None:
        async with vllm(server.url) as engine:
            single = servers_of(engine)
            assert isinstance(single, CountsTokens) and await single.count_tokens("a b") == 2

    async def test_a_server_that_cannot_say_is_not_believed(self) -> None:
        async with vllm(f"http://127.0.0.1:{closed_port()}/v1") as engine:
            assert await engine.count_tokens("one") is None


async def test_it_says_what_it_can_do() -> None:
    async with vllm("http://127.0.0.1:1/v1") as engine:
        assert engine.info.continues
