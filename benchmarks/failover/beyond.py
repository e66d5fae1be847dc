"""Failures beyond the catalogue (E1 to E13): each figure beside its target, and beside that of commit fc0ad32.

pass: all targets are reached; partial: some; fail: none, or an answer was wrong and looked whole.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from benchmarks.failover import addresses, scripts
from benchmarks.failover.asking import Answer
from benchmarks.failover.replicas import REPLICAS
from benchmarks.failover.scenario import (
    Behind,
    Bench,
    Figure,
    Found,
    Model,
    Scenario,
    cut,
    judged,
    model,
    quantile_s,
    served,
    whole,
)
from benchmarks.failover.texts import OTHERWISE_WRONG, TOO_LONG, refusal
from benchmarks.failover.wall import Script, chunk

_SCENARIOS: list[Scenario] = []
Run = Callable[[Bench], Awaitable[Found]]


def _scenario(
    id_: str, title: str, *models: Model, before: str = "", waits: bool = True
) -> Callable[[Run], Run]:
    def kept(run: Run) -> Run:
        _SCENARIOS.append(Scenario(id_, title, run, models, before, waits=waits))
        return run

    return kept


def _each(prefix: str, named: Mapping[str, Script], **advanced: Any) -> list[Model]:
    """A model for each: what one engine is refused must not count for the next."""
    return [model(f"{prefix}-{name}", script, **advanced) for name, script in named.items()]


async def _asked_each(bench: Bench, models: Sequence[Model], **more: Any) -> list[Answer]:
    return [await bench.ask(one.name, **more) for one in models]


def _served(answer: Answer, was: str) -> Figure:
    """Whether a single request was answered, and whether it was at commit fc0ad32."""
    return Figure("served", whole(answer), 1, was, at_least=True)


def _calls(bench: Bench, name: str) -> int:
    """Calls to either engine of a model."""
    return len(bench.primary(name)) + len(bench.fallback(name))


# ---- E1: rate limits


@_scenario(
    "E1.a",
    "429 with Retry-After: 2, 20 requests a second for 8 s",
    model("e1a", scripts.limited("2")),
    waits=False,
)
async def _storm(bench: Bench) -> Found:
    answers = await bench.at_rate("e1a", 20, 8, stream=False)
    return judged(
        Figure("calls", len(bench.primary("e1a")), 10, "320"),
        Figure("p50 s", quantile_s(answers, 0.5), 0.020, "2.01"),
        Figure("served of 160", served(answers), 160, "160", at_least=True),
    )


@_scenario("E1.b", "429 with Retry-After: 4.9, one request", model("e1b", scripts.limited("4.9")))
async def _long_wait(bench: Bench) -> Found:
    answer = await bench.ask("e1b", stream=False)
    return judged(
        Figure("seconds", answer.seconds, 1.0, "4.94"),
        _served(answer, "1"),
    )


@_scenario(
    "E1.c",
    "429 with Retry-After: 20, 20 requests a second for 8 s",
    model("e1c", scripts.limited("20")),
    waits=False,
)
async def _long_storm(bench: Bench) -> Found:
    answers = await bench.at_rate("e1c", 20, 8, stream=False)
    return judged(
        Figure("calls", len(bench.primary("e1c")), 10, "160"),
        Figure("p50 s", quantile_s(answers, 0.5), 0.020, "0.010"),
    )


@_scenario(
    "E1.d",
    "429 without Retry-After, 20 requests a second for 8 s",
    model("e1d", scripts.limited()),
    waits=False,
)
async def _bare_storm(bench: Bench) -> Found:
    answers = await bench.at_rate("e1d", 20, 8, stream=False)
    return judged(
        Figure("calls", len(bench.primary("e1d")), 10, "320"),
        Figure("p50 s", quantile_s(answers, 0.5), 0.020, "0.115"),
    )


@_scenario(
    "E1.e",
    "503 with Retry-After: 3, one request",
    model("e1e", scripts.refusing(503, headers={"Retry-After": "3"})),
)
async def _overloaded(bench: Bench) -> Found:
    answer = await bench.ask("e1e", stream=False)
    return judged(
        Figure("seconds", answer.seconds, 1.0, "3.01"),
        _served(answer, "1"),
    )


# ---- E2: too long

_LONG = _each("e2", {name: scripts.refusing(status, body=body) for name, (status, body) in TOO_LONG.items()})
_WRONG = _each(
    "e2w", {name: scripts.refusing(status, body=body) for name, (status, body) in OTHERWISE_WRONG.items()}
)
_SMALL = Model("e2-small", Behind(settings={"context_tokens": 1000}))


@_scenario(
    "E2", "too long, in 19 wordings; 12 other refusals; a window known to be small", *_LONG, *_WRONG, _SMALL
)
async def _too_long(bench: Bench) -> Found:
    answers = await _asked_each(bench, _LONG, stream=False)
    others = await _asked_each(bench, _WRONG, stream=False)
    moved = sum(bool(bench.fallback(one.name)) for one in _WRONG)
    kept = sum(
        answer.status == OTHERWISE_WRONG[name][0]
        for name, answer in zip(OTHERWISE_WRONG, others, strict=True)
    )
    long = [{"role": "user", "content": "many words " * 4000}]
    await bench.ask("e2-small", stream=False, messages=long)
    return judged(
        Figure("of 19 wordings", served(answers), 18, "7", at_least=True),
        Figure("other refusals that moved", moved, 0, "0"),
        Figure("that came as they were", kept, 12, "12", at_least=True),
        Figure("calls of the small window", len(bench.primary("e2-small")), 0, "1"),
    )


# ---- E3: slow streams

_BRIEF = {"first_data_s": 3, "gap_s": 3}


@_scenario(
    "E3.a", "comments for 12 s, limit 3 s", model("e3a", scripts.comments(12), **_BRIEF), before="12.9 s"
)
async def _comments(bench: Bench) -> Found:
    answer = await bench.ask("e3a")
    return judged(
        Figure("s to the first word", answer.first_s, 3.5, "12.0"),
        _served(answer, "1"),
    )


@_scenario("E3.b", "comments for 2 s, then cut", model("e3b", scripts.comments(2, then_cut=True), **_BRIEF))
async def _comments_cut(bench: Bench) -> Found:
    answer = await bench.ask("e3b")
    return judged(_served(answer, "1"))


@_scenario("E3.c", "the role, then silence; limit 3 s", model("e3c", scripts.slow(40), **_BRIEF))
async def _role_only(bench: Bench) -> Found:
    answer = await bench.ask("e3c")
    return judged(
        Figure("s to the first word", answer.first_s, 3.5, "3.0"),
        _served(answer, "1"),
    )


@_scenario(
    "E3.d", "silence after two words; limit 3 s", model("e3d", scripts.words_then(2, stall_s=30), **_BRIEF)
)
async def _stalls(bench: Bench) -> Found:
    answer = await bench.ask("e3d")
    return judged(
        _served(answer, "0"),
        Figure("seconds", answer.seconds, 5.0, "3.1"),
        wrong=cut([answer]),
    )


@_scenario(
    "E3.e",
    "a plain answer after 5 s, from both; limit of streams 3 s",
    model("e3e", scripts.slow(5), scripts.slow(5), **_BRIEF),
    before="504 after 6.0 s",
)
async def _plain_and_slow(bench: Bench) -> Found:
    answer = await bench.ask("e3e", stream=False)
    calls = _calls(bench, "e3e")
    return judged(_served(answer, "0"), Figure("calls", calls, 1, "2"))


# ---- E4: who else is asked

_REFUSALS = _each(
    "e4", {str(status): scripts.refusing(status) for status in (401, 402, 403, 404, 410, 413, 425, 501, 530)}
)
_MASKS = [
    model(f"e4m-{status}", scripts.refusing(503), scripts.refusing(status, "Unsupported."))
    for status in (400, 401)
]
_QUOTA = model("e4q", scripts.refusing(429, "You exceeded your current quota.", "insufficient_quota"))


@_scenario(
    "E4", "refusals that are the engine's own; a stand-in's 4xx; no credit", *_REFUSALS, *_MASKS, _QUOTA
)
async def _refusals(bench: Bench) -> Found:
    answers = await _asked_each(bench, _REFUSALS)
    masked = [answer.status != 503 for answer in await _asked_each(bench, _MASKS)]
    quota = await bench.ask("e4q")
    return judged(
        Figure("of 9 served", served(answers), 9, "0", at_least=True),
        Figure("first errors masked", sum(masked), 0, "2"),
        Figure("without credit, served", whole(quota), 1, "1", at_least=True),
        Figure("its calls", len(bench.primary("e4q")), 1, "2"),
    )


# ---- E5: 200 that is no answer

_COMPLETION = b'{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":'
_NO_ANSWERS = {
    "error": scripts.plain(refusal("Upstream error.", "server_error")),
    "html": scripts.plain(b"<html><body>Bad gateway</body></html>"),
    "nothing": scripts.plain(b""),
    "no-content": scripts.plain(_COMPLETION + b'{"role":"assistant","content":""}}]}'),
    "half": scripts.plain(_COMPLETION + b'{"role":"assistant","content":"A gateway'),
    "cut": scripts.plain(_COMPLETION + b'{"role":"assistant","content":"A gateway earns"}}]}', short_by=20),
}
_ROLE = chunk("m", {"role": "assistant", "content": ""})
_ERROR = {"error": {"message": "Upstream error.", "type": "server_error", "code": 502}}
_LIMIT = {"error": {"message": "Rate limited.", "type": "rate_limit_error", "code": 429}}
_LATE_KEY = {"id": "g", "choices": [{"index": 0, "delta": {}, "finish_reason": "error"}], **_ERROR}
_NO_STREAMS = {
    "error": scripts.streamed(_ERROR),
    "comment": scripts.streamed(b": wait\n\n", _ERROR),
    "role": scripts.streamed(_ROLE, _ERROR),
    "late-key": scripts.streamed(_LATE_KEY),
    "limit": scripts.streamed(_ROLE, _LIMIT),
    "json": scripts.plain(refusal("Upstream error.", "server_error")),
    "empty": scripts.streamed(),
    "done": scripts.streamed(b"data: [DONE]\n\n"),
    "tools": scripts.streamed(_ROLE, end="cut"),
}
_PLAIN, _STREAMS = _each("e5p", _NO_ANSWERS), _each("e5s", _NO_STREAMS)
_TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


@_scenario("E5", "200 that holds no answer: plain (6), streams (9)", *_PLAIN, *_STREAMS)
async def _no_answers(bench: Bench) -> Found:
    answers = await _asked_each(bench, _PLAIN, stream=False)
    streams = [
        await bench.ask(one.name, **({"tools": [_TOOL]} if one.name == "e5s-tools" else {}))
        for one in _STREAMS
    ]
    return judged(
        Figure("of 6 plain", served(answers), 6, "0", at_least=True),
        Figure("of 9 streams", served(streams), 9, "3", at_least=True),
        wrong=cut(answers) + cut(streams),
    )


# ---- E6: names, connections, TLS

_UNREACHABLE = [
    Model(f"e6-{where.__name__}", Behind(base_url=where))
    for where in (addresses.unknown, addresses.closed, addresses.without_tls, addresses.self_signed)
]
_HOLE = Model("e6-hole", Behind(base_url=addresses.silent))
_TLS_ALONE = Model("e6-tls", Behind(base_url=addresses.self_signed), None)


@_scenario("E6", "no name, no listener, no TLS, no trust; a black hole", *_UNREACHABLE, _HOLE, _TLS_ALONE)
async def _unreachable(bench: Bench) -> Found:
    answers = await _asked_each(bench, _UNREACHABLE, stream=False)
    hole = await bench.ask("e6-hole", stream=False)
    alone = await bench.ask("e6-tls", stream=False)
    return judged(
        Figure("of 4 served", served(answers), 4, "4", at_least=True),
        Figure("slowest, s", max(answer.seconds for answer in answers), 1.0, "0.24"),
        Figure("black hole, s", hole.seconds, 5.5, "21.9"),
        Figure("TLS error that names its cause", "certificate" in alone.error.lower(), 1, "0", at_least=True),
    )


# ---- E7: the breaker

_BACK_AT: list[float] = []
_OPEN_S = 10.5
"""A little more than `breaker_open_s`."""


@_scenario(
    "E7.a",
    "down, 100 at once; half-open and still down, 100 at once",
    model("e7a", scripts.refusing(503)),
    waits=False,
)
async def _half_open(bench: Bench) -> Found:
    at_first = await bench.at_once("e7a", 100, stream=False)
    calls = len(bench.primary("e7a"))
    await asyncio.sleep(_OPEN_S)
    again = await bench.at_once("e7a", 100, stream=False)
    return judged(
        Figure("served of 100", served(at_first), 100, "100", at_least=True),
        Figure("calls", calls, 100, "100"),
        Figure("half-open, served of 100", served(again), 100, "100", at_least=True),
        Figure("half-open, calls", len(bench.primary("e7a")) - calls, 1, "1"),
    )


@_scenario(
    "E7.b",
    "one engine alone, half-open and back, 100 at once",
    model("e7b", scripts.down_until(_BACK_AT, scripts.refusing(503)), None),
    waits=False,
)
async def _alone_and_back(bench: Bench) -> Found:
    for _ in range(5):
        await bench.ask("e7b", stream=False)
    await asyncio.sleep(_OPEN_S)
    _BACK_AT.append(0.0)
    answers = await bench.at_once("e7b", 100, stream=False)
    return judged(Figure("served of 100", served(answers), 100, "1", at_least=True))


async def _slow_once_back(call: Any) -> Any:
    if call.number == 6:
        await asyncio.sleep(15.0)
    return await call.answer()


@_scenario(
    "E7.c",
    "half-open, its probe takes 15 s",
    model("e7c", scripts.first(5, scripts.refusing(503), _slow_once_back)),
)
async def _slow_probe(bench: Bench) -> Found:
    # A failure more on the way would be one too many: one after the other.
    while len(bench.primary("e7c")) < 5:
        await bench.ask("e7c", stream=False)
    await asyncio.sleep(_OPEN_S)
    async with asyncio.TaskGroup() as group:
        probe = group.create_task(bench.ask("e7c", stream=False))
        # The probe is under way before anybody else asks.
        await asyncio.sleep(0.5)
        began = time.monotonic()
        while len(bench.primary("e7c")) < 7 and time.monotonic() - began < 20:
            await bench.ask("e7c", stream=False)
            await asyncio.sleep(0.25)
        back_s = time.monotonic() - began
    return judged(
        Figure("kept out, s", back_s, 6.0, "15.1"),
        Figure("probe served", whole(probe.result()), 1, "1", at_least=True),
    )


@_scenario(
    "E7.d", "one engine alone, 503, 20 at once: whose words", model("e7d", scripts.refusing(503), None)
)
async def _whose_words(bench: Bench) -> Found:
    answers = await bench.at_once("e7d", 20, stream=False)
    told = sum("overloaded" in answer.error for answer in answers)
    return judged(Figure("told in the engine's words, of 20", told, 20, "0", at_least=True))


_OPENS: dict[str, tuple[Script, float, str, str]] = {
    "503": (scripts.refusing(503), 5, "5", "30"),
    "error event first": (scripts.streamed(_ERROR), 10, "60", "30"),
    "cut after a word": (scripts.words_then(1), 5, "30", "0"),
    "cut after the role": (scripts.streamed(_ROLE, end="cut"), 5, "30", "30"),
    "401": (scripts.refusing(401), 5, "30", "0"),
}
for _number, (_name, (_script, _most, _was, _was_served)) in enumerate(_OPENS.items()):
    _opens = model(f"e7o-{_number}", _script)

    def _bound(name: str, calls: float, was: str, was_served: str) -> Run:
        async def run(bench: Bench) -> Found:
            answers = await bench.at_rate(name, 5, 6)
            return judged(
                Figure("calls", len(bench.primary(name)), calls, was),
                Figure("served of 30", served(answers), 30, was_served, at_least=True),
                wrong=cut(answers),
            )

        return run

    _scenario(f"E7b.{_number + 1}", f"always {_name}, 30 streams in 6 s", _opens)(
        _bound(_opens.name, _most, _was, _was_served)
    )


# ---- E8: how many tries a failure costs


@_scenario(
    "E8.a",
    "both 503, 200 clients in 20 s",
    model("e8a", scripts.refusing(503), scripts.refusing(503)),
    waits=False,
)
async def _both_down(bench: Bench) -> Found:
    await bench.ask("e8a", stream=False)
    before = _calls(bench, "e8a")
    answers = await bench.at_rate("e8a", 10, 20, stream=False)
    calls = _calls(bench, "e8a") - before
    refused = sum(answer.status == 503 for answer in answers)
    return judged(
        Figure("calls", calls, 8, "8"), Figure("told 503, of 200", refused, 200, "200", at_least=True)
    )


@_scenario(
    "E8.b",
    "both 429 with Retry-After: 1, 100 clients in 10 s",
    model("e8b", scripts.limited("1"), scripts.limited("1")),
)
async def _both_limited(bench: Bench) -> Found:
    answers = await bench.at_rate("e8b", 10, 10, stream=False)
    calls = _calls(bench, "e8b")
    refused = sum(answer.status == 429 for answer in answers)
    return judged(
        Figure("calls", calls, 40, "400"), Figure("told 429, of 100", refused, 100, "100", at_least=True)
    )


# ---- E9: the client leaves


@_scenario(
    "E9",
    "the client leaves: while it waits for Retry-After, and while an engine is silent (20)",
    model("e9a", scripts.limited("4"), None),
    model("e9b", scripts.silent(60), None),
)
async def _leaves(bench: Bench) -> Found:
    await bench.ask("e9a", within_s=1.0)
    await bench.at_once("e9b", 20, within_s=1.0)
    await asyncio.sleep(1.5)
    closed = sum(seen.gone_at_s is not None for seen in bench.primary("e9b"))
    await asyncio.sleep(3.0)
    return judged(
        Figure("calls after it left", len(bench.primary("e9a")) - 1, 0, "0"),
        Figure("of 20 closed within 1.5 s", closed, 20, "20", at_least=True),
    )


# ---- E12: headroom

_TOLD = scripts.Quota(30, 5.0)


@_scenario(
    "E12",
    "30 requests per 5 s, told in headers; 10 a second for 20 s",
    model("e12", _TOLD),
    waits=False,
)
async def _headroom(bench: Bench) -> Found:
    answers = await bench.at_rate("e12", 10, 20, stream=False)
    return judged(
        Figure("429s", _TOLD.refused, 2, "194"),
        Figure("p95 s", quantile_s(answers, 0.95), 0.1, "4.06"),
        Figure("served of 200", served(answers), 200, "200", at_least=True),
    )


# ---- E13: other endpoints

_ENDPOINTS = {
    "/v1/embeddings": {"input": "Hello."},
    "/v1/completions": {"prompt": "Hello."},
    "/v1/responses": {"input": "Hello."},
    "/v1/messages": {"messages": [{"role": "user", "content": "Hello."}], "max_tokens": 9},
    "/v1/images/generations": {"prompt": "A gateway."},
}


async def _anything(call: Any) -> Any:
    return await call.whole(200, {"object": "list", "data": [{"by": call.seen.engine}]})


def _same_model(script: Script) -> Behind:
    return Behind(script, settings={"model": "theirs"})


_OTHER = Model("e13", _same_model(scripts.refusing(503)), _same_model(_anything))
_STORED = Model("e13s", _same_model(scripts.refusing(503)), _same_model(_anything))
_VECTORS = Model("e13v", Behind(scripts.refusing(503)), Behind(_anything))


@_scenario(
    "E13",
    "other endpoints (5), 503; vectors of another model; a stored response",
    _OTHER,
    _STORED,
    _VECTORS,
)
async def _other_endpoints(bench: Bench) -> Found:
    answers = [await bench.client.post(path, {"model": "e13"} | body) for path, body in _ENDPOINTS.items()]
    await bench.client.post("/v1/embeddings", {"model": "e13v", "input": "Hello."})
    await bench.client.post(
        "/v1/responses", {"model": "e13s", "input": "x", "previous_response_id": "resp_1"}
    )
    moved = len(bench.fallback("e13v")) + len(bench.fallback("e13s"))
    return judged(
        Figure("of 5 served", sum(answer.ok for answer in answers), 5, "0", at_least=True),
        Figure("moved that must not", moved, 0, "0"),
    )


_SCENARIOS += REPLICAS

BEYOND: tuple[Scenario, ...] = tuple(_SCENARIOS)
