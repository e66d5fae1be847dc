"""Plans of several engines, each behind its single and over its own scripted upstream, for the tests of who is asked."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from multidict import CIMultiDict

from engines.answers.tail import Tail
from engines.attempts import Attempts
from engines.candidates import Try
from engines.chat import ChatRequest
from engines.engine import EngineReply, EngineRequest
from engines.errors import EngineError
from engines.openai_http import OpenAIHTTP
from engines.servers.servers import Servers
from engines.timeouts import Timeouts
from tests.engines.asking import PATIENT, engine
from tests.flow.line import completion, events
from tests.flow.upstream import Call, Script
from tests.knobs import servers_of

_ROLE = b'"role": "assistant", "content": ""'
_WORDS = re.compile(r"\S+\s*")


def chat(**fields: Any) -> ChatRequest:
    """What a client asks: streamed, unless it says otherwise."""
    fields = {"model": "m", "messages": [{"role": "user", "content": "Q?"}], "stream": True} | fields
    return ChatRequest(
        json.dumps(fields).encode(),
        fields,
        fields["model"],
        fields["messages"],
        stream=fields["stream"],
        include_usage=False,
    )


def asked(**fields: Any) -> EngineRequest:
    what = chat(**fields)
    headers = CIMultiDict({"Content-Type": "application/json"})
    return EngineRequest("POST", "/chat/completions", headers, what.body, what)


@asynccontextmanager
async def plan(
    *ports: int, timeouts: Timeouts = PATIENT, fields: dict[str, Any] | None = None, **info: Any
) -> AsyncIterator[list[Try]]:
    """One served engine per port, named by its place; `info`: of all of them. Ends with no slot taken."""
    async with AsyncExitStack() as stack:
        engines: list[Servers] = []
        for place, port in enumerate(ports):
            one: OpenAIHTTP = await stack.enter_async_context(engine(port, f"engine{place}", timeouts))
            one.info = replace(one.info, **({"attempts": 2} | info))
            engines.append(servers_of(one))
        yield [Try(single, asked(**({"stream": False} | (fields or {})))) for single in engines]
        assert [single.load().in_flight for single in engines] == [0] * len(engines)


async def read(attempts: Attempts) -> tuple[EngineReply, bytes]:
    """The answer, as a client gets it."""
    async with attempts as reply:
        tail, body = Tail(), []
        async for chunk in attempts.chunks(tail):
            body.append(chunk)
            tail.feed(chunk)
        return reply, b"".join(body)


async def end_of(attempts: Attempts) -> EngineError:
    """The error it ends with, before or after it began."""
    try:
        await read(attempts)
    except EngineError as error:
        return error
    raise AssertionError("it ended well")


def answer(text: str = "Forty-two.", **more: Any) -> bytes:
    return json.dumps(completion(text, **more)).encode()


def text_of(body: bytes) -> str:
    """What was said, streamed or not."""
    if not body.startswith((b"data:", b":")):
        return str(json.loads(body)["choices"][0]["message"]["content"])
    chunks = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: {")]
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])


def chunks_of(text: str, finish: str | None = None) -> list[bytes]:
    """A stream of a word at a time, blanks and all, without [DONE]; it ends with `finish`."""
    role, end = events("", usage=False)[0], events("", usage=False)[-1]
    said = [role.replace(_ROLE, b'"content": ' + json.dumps(w).encode()) for w in _WORDS.findall(text)]
    return [role, *said, *([end] if finish else [])]


def says(text: str) -> Script:
    """A whole stream of a word at a time, or a plain answer, as the client asks."""

    def script(call: Call) -> None:
        if not call.json().get("stream"):
            return call.answer(answer(text))
        call.begin()
        for event in chunks_of(text, "stop"):
            call.chunk(event)
        call.chunk(b"data: [DONE]\n\n")
        return call.end()

    return script


def breaks_after(text: str, then: bytes = b"", *, whole: bool = False) -> Script:
    """The beginning of such a stream, and then nothing; `whole`: its transfer comes to a proper end."""

    def script(call: Call) -> None:
        call.begin()
        for event in chunks_of(text):
            call.chunk(event)
        if then:
            call.chunk(then)
        if whole:
            call.end()

    return script


def refuses(status: int, body: bytes = b'{"error":{"message":"no"}}', **headers: str) -> Script:
    sent = [("Content-Type", "application/json"), *((k.replace("_", "-"), v) for k, v in headers.items())]
    return lambda call: call.answer(body, status, sent)
