"""Engines that are silent or down are probed; requests find neither out by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from threading import Event

from engines.engine import EngineInfo
from engines.errors import Kind
from engines.openai_http import OpenAIHTTP
from engines.servers.breaker import Breaker
from engines.servers.prober import Pace, Prober
from engines.servers.server import Server
from engines.servers.servers import Servers
from engines.servers.standing import Since, Standing
from tests.engines.asking import PATIENT, asked, chat, closed_port, engine, served
from tests.flow.upstream import Call, Script, Upstream, waits
from tests.knobs import servers_of
from tests.patience import PATIENCE_S, until

QUICK = Pace(every_s=0.05, down_s=0.05, down_most_s=0.1, look_s=0.01)
PROBE = b"GET /v1/models HTTP/1.1"


@asynccontextmanager
async def probing(*engines: Servers, pace: Pace = QUICK) -> AsyncIterator[list[Standing]]:
    """Gives the states of the first, in order."""
    told: list[Standing] = []
    servers = [server for engine in engines for server in engine.servers]

    def tell(server: Server, since: Since, was: Since | None) -> None:
        assert (was.state if was else None) == (told[-1] if told else None) or server is not servers[0]
        if server is servers[0]:
            told.append(since.state)

    prober = Prober(servers, pace, tell)
    prober.start()
    try:
        yield told
    finally:
        await prober.aclose()
        assert prober.failures == 0


def unwell(status: int) -> Script:
    """Answers chats, and says at its health check that it is unwell."""
    return lambda call: call.answer(b"{}", status if call.line == PROBE else 200)


class Held:
    """Answers health checks, or chats, only when it is told to, and the others at once."""

    def __init__(self, *, chats: bool = False, status: int = 200) -> None:
        self._chats, self._status = chats, status
        self.calls = 0
        self.go = Event()

    def __call__(self, call: Call) -> None:
        if (call.line == PROBE) is self._chats:
            call.answer(b"{}")
            return
        self.calls += 1
        assert self.go.wait(PATIENCE_S)
        call.answer(b"{}", self._status)


def probes(upstream: Upstream) -> int:
    return sum(call.line == PROBE for call in upstream.calls)


async def test_a_silent_engine_that_is_gone_is_taken_out_before_anybody_asks_it() -> None:
    port = closed_port()
    async with served(port) as single:
        assert single.servers[0].since().state is Standing.UNKNOWN
        async with probing(single):
            await until(lambda: single.servers[0].since().state is Standing.DOWN, "the probe's word")
            assert (
                single.servers[0].last_probe is not None and "refused" in single.servers[0].last_probe.error
            )
        refusal = single.admits(chat()).refusal
        assert refusal is not None and refusal.kind is Kind.OPEN
        assert single.servers[0].last_failure is not None
        assert (
            single.servers[0].last_failure.told
            == f"connect: No connection to 127.0.0.1:{port}: Connection refused."
        )
        assert (single.servers[0].asked, single.servers[0].failed) == (0, 0), "no request was spent on it"


async def test_once_it_is_well_one_request_tries_it_and_opens_it_for_all(upstream: Upstream) -> None:
    upstream.plays(unwell(503))
    async with served(upstream.port) as single, probing(single) as told:
        await until(lambda: single.servers[0].since().state is Standing.DOWN, "a bad probe")
        upstream.plays(unwell(200))
        await until(lambda: single.servers[0].since().state is Standing.UNKNOWN, "a good probe")
        upstream.plays(held := Held(chats=True))
        async with asyncio.TaskGroup() as clients:
            first = clients.create_task(asked(single, chat()))
            await until(lambda: held.calls, "the request that tries it")
            refusal = single.admits(chat()).refusal
            assert refusal is not None, "one request, not all of them"
            held.go.set()
        assert first.result()[0] == 200 and single.admits(chat()).admitted
        await until(lambda: told[-1] is Standing.UP, "the state told")
        assert told == [Standing.UNKNOWN, Standing.DOWN, Standing.UNKNOWN, Standing.UP]


async def test_a_good_probe_does_not_open_an_engine_that_fails_what_it_is_asked(upstream: Upstream) -> None:
    upstream.plays(lambda call: call.answer(b"{}", 200 if call.line == PROBE else 503))
    async with served(upstream.port, breaker=Breaker(failures=1, open_s=3600)) as single:
        await asked(single, chat())
        assert single.servers[0].since().state is Standing.DOWN
        async with probing(single):
            await until(lambda: single.admits(chat()).admitted, "a good probe")
            await asked(single, chat())
            assert single.servers[0].since().state is Standing.DOWN


async def test_who_answers_is_not_probed(upstream: Upstream) -> None:
    async with served(upstream.port) as single, probing(single, pace=replace(QUICK, every_s=60.0)) as told:
        await asked(single, chat())
        await until(lambda: told[-1] is Standing.UP, "heard of")
        assert probes(upstream) == 0


async def test_without_an_interval_nothing_is_probed(upstream: Upstream) -> None:
    upstream.plays(unwell(503))
    async with served(upstream.port) as single, served(upstream.port) as other:
        async with probing(single, pace=replace(QUICK, every_s=None)), probing(other):
            await until(lambda: probes(upstream) > 2, "probes of the other one")
        assert single.servers[0].since().state is Standing.UNKNOWN and single.admits(chat()).admitted


async def test_a_drained_engine_is_left_alone(upstream: Upstream) -> None:
    upstream.plays(unwell(503))
    async with served(upstream.port) as single, served(upstream.port) as other:
        single.servers[0].drained = True
        async with probing(single) as told, probing(other):
            await until(lambda: probes(upstream) > 2, "probes of the other one")
        assert told == [Standing.DRAINED] and single.servers[0].breaker.gate.kind is None


async def test_a_rate_limit_is_not_lifted_by_a_good_probe(upstream: Upstream) -> None:
    upstream.plays(
        lambda call: call.answer(b"{}", 200 if call.line == PROBE else 429, [("Retry-After", "600")])
    )
    async with served(upstream.port) as single, served(upstream.port) as other:
        await asked(single, chat())
        async with probing(single) as told, probing(other):
            await until(lambda: probes(upstream) > 2, "probes of the other one")
        assert told == [Standing.LIMITED] and single.admits(chat()).refusal is not None


async def test_what_a_request_finds_out_meanwhile_counts_more(upstream: Upstream) -> None:
    upstream.plays(held := Held(status=503))
    async with served(upstream.port) as single, probing(single, pace=replace(QUICK, every_s=0.3)) as told:
        await until(lambda: held.calls, "a probe that takes its time")
        assert (await asked(single, chat()))[0] == 200
        upstream.plays(unwell(200))
        held.go.set()
        await until(lambda: probes(upstream) > 1, "the next one")
        assert told == [Standing.UNKNOWN, Standing.UP]


async def test_a_clients_own_key_is_not_in_what_is_kept_of_an_error(upstream: Upstream) -> None:
    upstream.plays(lambda call: call.answer(b'{"error": {"message": "secret-of-client"}}', 500))
    for holds_key in (True, False):
        info = EngineInfo("e", holds_key=holds_key)
        inner = OpenAIHTTP(info, f"http://127.0.0.1:{upstream.port}/v1", timeouts=PATIENT)
        single = servers_of(inner)
        await asked(single, chat())
        assert single.servers[0].last_failure is not None
        assert single.servers[0].last_failure.told == (
            "server 500: secret-of-client" if holds_key else "server 500"
        )
        await inner.aclose()


async def test_a_probe_under_way_ends_with_the_prober(upstream: Upstream) -> None:
    upstream.plays(waits)
    async with served(upstream.port) as single:
        async with probing(single):
            await until(lambda: probes(upstream), "a probe that takes its time")
        assert await asyncio.to_thread(upstream.call().was_left)
        assert single.servers[0].since().state is Standing.UNKNOWN, "it was not decided"


async def test_a_busy_server_that_is_late_is_not_down(upstream: Upstream) -> None:
    async with engine(upstream.port, timeouts=replace(PATIENT, connect_s=0.1)) as inner:
        single = servers_of(inner)
        upstream.plays(held := Held(chats=True))
        async with asyncio.TaskGroup() as clients:
            clients.create_task(asked(single, chat()))
            await until(lambda: held.calls, "a request under way")
            upstream.plays(waits)
            async with probing(single) as told:
                await until(lambda: probes(upstream) > 2, "probes that came too late")
                assert told == [Standing.UNKNOWN]
                held.go.set()
                await until(
                    lambda: told[-1] is Standing.DOWN, "nothing is under way, and it still does not answer"
                )
