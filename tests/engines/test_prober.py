"""Engines that are silent or down are probed; requests find neither out by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from threading import Event

from engines.breaker import Breaker
from engines.engine import EngineInfo
from engines.errors import Kind
from engines.guard import Guard
from engines.openai_http import OpenAIHTTP
from engines.prober import Pace, Prober
from engines.standing import Since, Standing
from tests.engines.asking import PATIENT, asked, chat, closed_port, engine, guarded
from tests.flow.upstream import Call, Script, Upstream, waits
from tests.knobs import guard_of
from tests.patience import PATIENCE_S, until

QUICK = Pace(every_s=0.05, down_s=0.05, down_most_s=0.1, look_s=0.01)
PROBE = b"GET /v1/models HTTP/1.1"


@asynccontextmanager
async def probing(*guards: Guard, pace: Pace = QUICK) -> AsyncIterator[list[Standing]]:
    """Gives the states of the first, in order."""
    told: list[Standing] = []

    def tell(guard: Guard, since: Since, was: Since | None) -> None:
        assert (was.state if was else None) == (told[-1] if told else None) or guard is not guards[0]
        if guard is guards[0]:
            told.append(since.state)

    prober = Prober(guards, pace, tell)
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
    async with guarded(port) as guard:
        assert guard.since().state is Standing.UNKNOWN
        async with probing(guard):
            await until(lambda: guard.since().state is Standing.DOWN, "the probe's word")
            assert guard.last_probe is not None and "refused" in guard.last_probe.error
        refusal = guard.admits(chat()).refusal
        assert refusal is not None and refusal.kind is Kind.OPEN
        assert guard.last_failure is not None
        assert guard.last_failure.told == f"connect: No connection to 127.0.0.1:{port}: Connection refused."
        assert (guard.asked, guard.failed) == (0, 0), "no request was spent on it"


async def test_once_it_is_well_one_request_tries_it_and_opens_it_for_all(upstream: Upstream) -> None:
    upstream.plays(unwell(503))
    async with guarded(upstream.port) as guard, probing(guard) as told:
        await until(lambda: guard.since().state is Standing.DOWN, "a bad probe")
        upstream.plays(unwell(200))
        await until(lambda: guard.since().state is Standing.UNKNOWN, "a good probe")
        upstream.plays(held := Held(chats=True))
        async with asyncio.TaskGroup() as clients:
            first = clients.create_task(asked(guard, chat()))
            await until(lambda: held.calls, "the request that tries it")
            refusal = guard.admits(chat()).refusal
            assert refusal is not None, "one request, not all of them"
            held.go.set()
        assert first.result()[0] == 200 and guard.admits(chat()).admitted
        await until(lambda: told[-1] is Standing.UP, "the state told")
        assert told == [Standing.UNKNOWN, Standing.DOWN, Standing.UNKNOWN, Standing.UP]


async def test_a_good_probe_does_not_open_an_engine_that_fails_what_it_is_asked(upstream: Upstream) -> None:
    upstream.plays(lambda call: call.answer(b"{}", 200 if call.line == PROBE else 503))
    async with guarded(upstream.port, breaker=Breaker(failures=1, open_s=3600)) as guard:
        await asked(guard, chat())
        assert guard.since().state is Standing.DOWN
        async with probing(guard):
            await until(lambda: guard.admits(chat()).admitted, "a good probe")
            await asked(guard, chat())
            assert guard.since().state is Standing.DOWN


async def test_who_answers_is_not_probed(upstream: Upstream) -> None:
    async with guarded(upstream.port) as guard, probing(guard, pace=replace(QUICK, every_s=60.0)) as told:
        await asked(guard, chat())
        await until(lambda: told[-1] is Standing.UP, "heard of")
        assert probes(upstream) == 0


async def test_without_an_interval_nothing_is_probed(upstream: Upstream) -> None:
    upstream.plays(unwell(503))
    async with guarded(upstream.port) as guard, guarded(upstream.port) as other:
        async with probing(guard, pace=replace(QUICK, every_s=None)), probing(other):
            await until(lambda: probes(upstream) > 2, "probes of the other one")
        assert guard.since().state is Standing.UNKNOWN and guard.admits(chat()).admitted


async def test_a_drained_engine_is_left_alone(upstream: Upstream) -> None:
    upstream.plays(unwell(503))
    async with guarded(upstream.port) as guard, guarded(upstream.port) as other:
        guard.drained = True
        async with probing(guard) as told, probing(other):
            await until(lambda: probes(upstream) > 2, "probes of the other one")
        assert told == [Standing.DRAINED] and guard.breaker.gate.kind is None


async def test_a_rate_limit_is_not_lifted_by_a_good_probe(upstream: Upstream) -> None:
    upstream.plays(
        lambda call: call.answer(b"{}", 200 if call.line == PROBE else 429, [("Retry-After", "600")])
    )
    async with guarded(upstream.port) as guard, guarded(upstream.port) as other:
        await asked(guard, chat())
        async with probing(guard) as told, probing(other):
            await until(lambda: probes(upstream) > 2, "probes of the other one")
        assert told == [Standing.LIMITED] and guard.admits(chat()).refusal is not None


async def test_what_a_request_finds_out_meanwhile_counts_more(upstream: Upstream) -> None:
    upstream.plays(held := Held(status=503))
    async with guarded(upstream.port) as guard, probing(guard, pace=replace(QUICK, every_s=0.3)) as told:
        await until(lambda: held.calls, "a probe that takes its time")
        assert (await asked(guard, chat()))[0] == 200
        upstream.plays(unwell(200))
        held.go.set()
        await until(lambda: probes(upstream) > 1, "the next one")
        assert told == [Standing.UNKNOWN, Standing.UP]


async def test_a_clients_own_key_is_not_in_what_is_kept_of_an_error(upstream: Upstream) -> None:
    upstream.plays(lambda call: call.answer(b'{"error": {"message": "secret-of-client"}}', 500))
    for holds_key in (True, False):
        info = EngineInfo("e", holds_key=holds_key)
        inner = OpenAIHTTP(info, f"http://127.0.0.1:{upstream.port}/v1", timeouts=PATIENT)
        guard = guard_of(inner)
        await asked(guard, chat())
        assert guard.last_failure is not None
        assert guard.last_failure.told == ("server 500: secret-of-client" if holds_key else "server 500")
        await inner.aclose()


async def test_a_probe_under_way_ends_with_the_prober(upstream: Upstream) -> None:
    upstream.plays(waits)
    async with guarded(upstream.port) as guard:
        async with probing(guard):
            await until(lambda: probes(upstream), "a probe that takes its time")
        assert await asyncio.to_thread(upstream.call().was_left)
        assert guard.since().state is Standing.UNKNOWN, "it was not decided"


async def test_a_busy_server_that_is_late_is_not_down(upstream: Upstream) -> None:
    async with engine(upstream.port, timeouts=replace(PATIENT, connect_s=0.1)) as inner:
        guard = guard_of(inner)
        upstream.plays(held := Held(chats=True))
        async with asyncio.TaskGroup() as clients:
            clients.create_task(asked(guard, chat()))
            await until(lambda: held.calls, "a request under way")
            upstream.plays(waits)
            async with probing(guard) as told:
                await until(lambda: probes(upstream) > 2, "probes that came too late")
                assert told == [Standing.UNKNOWN]
                held.go.set()
                await until(
                    lambda: told[-1] is Standing.DOWN, "nothing is under way, and it still does not answer"
                )
