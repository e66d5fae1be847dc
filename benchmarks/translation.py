"""CPU time of saying requests and answers in another API: `python -m benchmarks.translation`.

A conversation of 20 messages with tools, images, a schema and an effort; a whole answer of text and a call; a stream of the
same, by the chunk, each of which comes by itself. A client on an engine of its own API costs none of these. Each cell is the
least of five rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import orjson
from multidict import CIMultiDict

from engines.apis import Api
from engines.chat import ChatRequest, Usage
from engines.codecs.neutral import WRITTEN
from engines.codecs.parts import Hearing
from engines.codecs.table import CODECS
from engines.codecs.writing import written
from engines.engine import Engine, EngineInfo, EngineRequest
from engines.sse import EventCutter
from engines.translating import Translated, Translating

_MESSAGES = 20
_ROUNDS, _TIMES = 5, 2000
_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def _conversation() -> list[dict[str, Any]]:
    """Builds turns of a question, a call, its result and an answer, as agents have them."""
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be short. " * 100}]
    while len(messages) < _MESSAGES:
        call = f"call_{len(messages)}"
        function = {"name": "look", "arguments": orjson.dumps({"city": "Rome", "why": "x" * 200}).decode()}
        messages += [
            {"role": "user", "content": [{"type": "text", "text": "Where? " * 50}, image]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": call, "content": "There. " * 100},
            {"role": "assistant", "content": "It is there. " * 20},
        ]
    return messages[:_MESSAGES]


def _requests() -> dict[str, ChatRequest]:
    """Says the same request in each API."""
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": _SCHEMA, "strict": True}}
    tool = {"type": "function", "function": {"name": "look", "parameters": _SCHEMA, "strict": True}}
    fields = {
        "model": "m",
        "messages": _conversation(),
        "tools": [tool] * 5,
        "response_format": form,
        "max_completion_tokens": 2000,
        "reasoning_effort": "high",
    }
    chat = CODECS["chat"].read(orjson.dumps(fields), fields)
    said = {api: written(chat, api) for api in WRITTEN}
    return {api: CODECS[api].read(orjson.dumps(own), own) for api, own in said.items()}


_WORDS = 200


def _answers() -> dict[str, tuple[bytes, list[bytes]]]:
    """Says the same answer in each API: in one piece, and as the events of a stream."""
    said: dict[str, tuple[bytes, list[bytes]]] = {}
    for api in WRITTEN:
        chat = replace(_requests()[api], stream=True, include_usage=True)
        for streams in (False, True):
            saying = CODECS[api].saying(chat, streams=streams)
            saying.begin("1", "m", 1)
            for place in range(_WORDS):
                saying.text(f"word {place} ")
            saying.call("call_1", "look")
            saying.arguments('{"city": "Rome"}')
            saying.use(Usage(2000, 300, 1000))
            saying.end("tool_calls")
            if not streams:
                said[api] = orjson.dumps(saying.whole()), []
            else:
                events = [event + b"\n\n" for event in saying.take().split(b"\n\n")[:-1]]
                said[api] = said[api][0], events
    return said


def _least_us(call: Callable[[], object], times: int) -> float:
    """Microseconds of one call, in the best round."""
    rounds_s = []
    for _ in range(_ROUNDS):
        begun_s = time.process_time()
        for _ in range(times):
            call()
        rounds_s.append(time.process_time() - begun_s)
    return min(rounds_s) / times * 1e6


@dataclass
class _Named:
    """All that is asked of an engine here."""

    info: EngineInfo


def _translated(chat: ChatRequest, engine: Api) -> tuple[Translated, Hearing]:
    """What turns an answer of an engine's API into the client's."""
    info = EngineInfo("e", apis=frozenset({engine}))
    saying = CODECS[chat.api].saying(chat, streams=chat.stream)
    translating = Translating(cast(Engine, _Named(info)), engine)
    request = EngineRequest("POST", "/", CIMultiDict(), b"")
    return Translated(translating, request, chat), CODECS[engine].hearing(saying)


def _whole(chat: ChatRequest, engine: Api, body: bytes) -> None:
    translated, hearing = _translated(chat, engine)
    translated.said(body, hearing)


def _streamed(chat: ChatRequest, engine: Api, events: Sequence[bytes]) -> None:
    translated, hearing = _translated(chat, engine)
    cutter = EventCutter()
    for event in events:
        translated.heard(cutter.whole(event), hearing)


def main() -> None:
    """Print a row for each client's API and each engine's."""
    answers = _answers()
    print("client    engine       request      answer   a chunk  (us)")
    for client, request in _requests().items():
        streamed = replace(request, stream=True, include_usage=True)
        for engine in WRITTEN:
            body, events = answers[engine]
            asked_us = _least_us(partial(written, request, engine), _TIMES)
            whole_us = _least_us(partial(_whole, request, engine, body), _TIMES // 4)
            chunk_us = _least_us(partial(_streamed, streamed, engine, events), _TIMES // 40) / len(events)
            if client == engine:
                asked_us = whole_us = chunk_us = 0.0
            print(f"{client:<9} {engine:<9} {asked_us:10.1f}  {whole_us:10.1f}  {chunk_us:8.2f}")


if __name__ == "__main__":
    main()
