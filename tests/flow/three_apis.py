"""One upstream that answers in each of three APIs, and a client of each by its own SDK, which say the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai
from aiohttp import web

from tests.flow.line import Asked, Line

APIS = ("chat", "responses", "messages")
CALLS = (("call_1", "weather", {"city": "Oslo"}), ("call_2", "weather", {"city": "Rome", "days": 2}))
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
PICTURE = "iVBORw0KGgo="


@dataclass
class Answer:
    """What the model says."""

    text: str = ""
    thought: str = ""
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    reason: str = "stop"
    """As a chat completion calls it."""
    cached: int = 0
    reasoning_tokens: int = 0
    prompt: int = 20
    output: int = 10


@dataclass
class Upstream:
    """Answers with `says`. `cut`: its streams break off after so many events; `fails`: a status and a message instead;
    `fails_halfway`: an error event after so many."""

    says: Answer = field(default_factory=Answer)
    cut: int | None = None
    fails: tuple[int, str] | None = None
    fails_halfway: int | None = None
    only: str = ""
    """The one API that it answers in; in the others it is down."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    """Answers, as they were sent."""
    headers: list[Any] = field(default_factory=list)

    async def __call__(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        api = {"completions": "chat", "responses": "responses", "messages": "messages"}[
            request.path.rpartition("/")[2]
        ]
        body = asked.json
        self.asked.append(body)
        self.bodies.append(asked.body)
        self.headers.append(asked.headers)
        if self.fails is not None:
            status, message = self.fails
            return web.json_response(ERRORS[api](message), status=status, headers={"Retry-After": "7"})
        if self.only and api != self.only:
            return web.json_response(ERRORS[api]("Down."), status=500)
        if not body.get("stream"):
            self.sent.append(json.dumps(WHOLE[api](self.says, body)).encode())
            return web.Response(body=self.sent[-1], content_type="application/json")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        self.sent.append(b"")
        for number, event in enumerate(STREAMS[api](self.says, body)):
            if number == self.cut:
                assert request.transport is not None
                request.transport.close()
                return response
            if number == self.fails_halfway:
                await response.write(HALFWAY[api])
                return response
            await response.write(event)
            self.sent[-1] += event
        return response


def _pieces(text: str) -> list[str]:
    return [text[place : place + 5] for place in range(0, len(text), 5)]


# ---- chat completions


def _chat_usage(says: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": says.prompt,
        "completion_tokens": says.output,
        "total_tokens": says.prompt + says.output,
        "prompt_tokens_details": {"cached_tokens": says.cached},
        "completion_tokens_details": {"reasoning_tokens": says.reasoning_tokens},
    }


def _chat_whole(says: Answer, body: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": says.text or None, "refusal": None}
    if says.thought:
        message["reasoning_content"] = says.thought
    if says.calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for id, name, given in says.calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": says.reason}
    return {
        "id": "chatcmpl-7",
        "object": "chat.completion",
        "created": 1700000000,
        "model": body["model"],
        "choices": [choice],
        "usage": _chat_usage(says),
    }


def _chat_stream(says: Answer, body: dict[str, Any]) -> Iterator[bytes]:
    head = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 1700000000}
    head["model"] = body["model"]

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return b"data: %b\n\n" % json.dumps(head | {"choices": [choice]}).encode()

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(says.thought):
        yield chunk({"reasoning_content": piece})
    for piece in _pieces(says.text):
        yield chunk({"content": piece})
    for index, (id, name, given) in enumerate(says.calls):
        function = {"name": name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})
        for piece in _pieces(json.dumps(given)):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, says.reason)
    if (body.get("stream_options") or {}).get("include_usage"):
        yield b"data: %b\n\n" % json.dumps(head | {"choices": [], "usage": _chat_usage(says)}).encode()
    yield b"data: [DONE]\n\n"


# ---- responses


def _response(says: Answer, body: dict[str, Any]) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if says.thought:
        summary = [{"type": "summary_text", "text": says.thought}]
        output.append({"id": "rs_7", "type": "reasoning", "summary": summary})
    if says.text:
        part = {"type": "output_text", "text": says.text, "annotations": [], "logprobs": []}
        message = {"id": "msg_7", "type": "message", "role": "assistant", "status": "completed"}
        output.append(message | {"content": [part]})
    for id, name, given in says.calls:
        call = {"id": f"fc_{id}", "type": "function_call", "status": "completed", "call_id": id, "name": name}
        output.append(call | {"arguments": json.dumps(given)})
    short = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(says.reason)
    return {
        "id": "resp_7",
        "object": "response",
        "created_at": 1700000000,
        "status": "incomplete" if short else "completed",
        "error": None,
        "incomplete_details": {"reason": short} if short else None,
        "instructions": None,
        "model": body["model"],
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": says.prompt,
            "input_tokens_details": {"cached_tokens": says.cached},
            "output_tokens": says.output,
            "output_tokens_details": {"reasoning_tokens": says.reasoning_tokens},
            "total_tokens": says.prompt + says.output,
        },
    }


def _response_stream(says: Answer, body: dict[str, Any]) -> Iterator[bytes]:
    whole = _response(says, body)
    begun = whole | {"output": [], "status": "in_progress", "usage": None, "incomplete_details": None}
    events: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": begun}),
        ("response.in_progress", {"response": begun}),
    ]
    for place, item in enumerate(whole["output"]):
        where = {"item_id": item["id"], "output_index": place}
        if item["type"] == "reasoning":
            text, at = item["summary"][0]["text"], where | {"summary_index": 0}
            empty = item | {"summary": []}
            said = [
                (
                    "response.reasoning_summary_part.added",
                    at | {"part": {"type": "summary_text", "text": ""}},
                ),
                *(
                    ("response.reasoning_summary_text.delta", at | {"delta": piece})
                    for piece in _pieces(text)
                ),
                ("response.reasoning_summary_text.done", at | {"text": text}),
            ]
        elif item["type"] == "message":
            part, at = item["content"][0], where | {"content_index": 0}
            empty = item | {"content": [], "status": "in_progress"}
            said = [
                ("response.content_part.added", at | {"part": part | {"text": ""}}),
                *(
                    ("response.output_text.delta", at | {"delta": piece, "logprobs": []})
                    for piece in _pieces(part["text"])
                ),
                ("response.output_text.done", at | {"text": part["text"], "logprobs": []}),
                ("response.content_part.done", at | {"part": part}),
            ]
        else:
            empty = item | {"arguments": "", "status": "in_progress"}
            said = [
                *(
                    ("response.function_call_arguments.delta", where | {"delta": piece})
                    for piece in _pieces(item["arguments"])
                ),
                ("response.function_call_arguments.done", where | {"arguments": item["arguments"]}),
            ]
        events.append(("response.output_item.added", {"output_index": place, "item": empty}))
        events += said
        events.append(("response.output_item.done", {"output_index": place, "item": item}))
    events.append((f"response.{whole['status']}", {"response": whole}))
    for number, (kind, members) in enumerate(events):
        yield _typed({"type": kind, "sequence_number": number} | members)


# ---- messages

_STOPS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


def _message(says: Answer, body: dict[str, Any]) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    if says.thought:
        blocks.append({"type": "thinking", "thinking": says.thought, "signature": "sig+7="})
    if says.text:
        blocks.append({"type": "text", "text": says.text})
    blocks += [{"type": "tool_use", "id": id, "name": name, "input": given} for id, name, given in says.calls]
    return {
        "id": "msg_7",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": blocks,
        "stop_reason": _STOPS[says.reason],
        "stop_sequence": None,
        "usage": {
            "input_tokens": says.prompt - says.cached,
            "cache_read_input_tokens": says.cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": says.output,
        },
    }


def _message_stream(says: Answer, body: dict[str, Any]) -> Iterator[bytes]:
    whole = _message(says, body)
    begun = whole | {"content": [], "stop_reason": None, "usage": whole["usage"] | {"output_tokens": 1}}
    yield _typed({"type": "message_start", "message": begun})
    yield _typed({"type": "ping"})
    for index, block in enumerate(whole["content"]):
        if block["type"] == "thinking":
            empty = block | {"thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"] == "text":
            empty = block | {"text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        else:
            empty = block | {"input": {}}
            pieces = _pieces(json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces)]
        yield _typed({"type": "content_block_start", "index": index, "content_block": empty})
        for delta in deltas:
            yield _typed({"type": "content_block_delta", "index": index, "delta": delta})
        yield _typed({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield _typed({"type": "message_delta", "delta": delta, "usage": whole["usage"]})
    yield _typed({"type": "message_stop"})


def _typed(event: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode())


def _openai_error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": "no_good"}}


def _anthropic_error(message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "no_good", "message": message}}


WHOLE = {"chat": _chat_whole, "responses": _response, "messages": _message}
STREAMS = {"chat": _chat_stream, "responses": _response_stream, "messages": _message_stream}
ERRORS = {"chat": _openai_error, "responses": _openai_error, "messages": _anthropic_error}
HALFWAY = {
    "chat": b"data: %b\n\n" % json.dumps(_openai_error("Overloaded")).encode(),
    "responses": _typed(
        {"type": "error", "sequence_number": 9, "code": "no_good", "message": "Overloaded", "param": None}
    ),
    "messages": _typed(_anthropic_error("Overloaded")),
}


# ---- clients


@dataclass
class Heard:
    """What a client's SDK made of an answer."""

    text: str = ""
    thought: str = ""
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    reason: str = ""
    prompt: int = 0
    cached: int = 0
    output: int = 0
    reasoning_tokens: int = 0
    kinds: list[str] = field(default_factory=list)
    """Of a stream's events."""
    raw: Any = None


class Client:
    """Asks in one API. What it asks: `question`, with tools, a picture or a schema."""

    def __init__(self, api: str, gate: Line) -> None:
        self.api = api
        origin = gate.url.removesuffix("/v1")
        self.openai = openai.AsyncOpenAI(base_url=gate.url, api_key="sk-client", max_retries=0)
        self.anthropic = anthropic.AsyncAnthropic(base_url=origin, api_key="sk-client", max_retries=0)

    async def aclose(self) -> None:
        await self.openai.close()
        await self.anthropic.close()

    async def ask(
        self, model: str, *, stream: bool, tools: bool = False, picture: bool = False, schema: bool = False
    ) -> Heard:
        """Ask, and read the answer by the SDK's own means."""
        ask = {"chat": self._chat, "responses": self._responses, "messages": self._messages}[self.api]
        return await ask(model, stream, tools, picture, schema)

    async def _chat(self, model: str, stream: bool, tools: bool, picture: bool, schema: bool) -> Heard:
        content: Any = "What is it?"
        if picture:
            url = {"url": f"data:image/png;base64,{PICTURE}"}
            content = [{"type": "text", "text": content}, {"type": "image_url", "image_url": url}]
        more: dict[str, Any] = {}
        if tools:
            more["tools"] = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
        if schema:
            form = {"name": "answer", "schema": SCHEMA, "strict": True}
            more["response_format"] = {"type": "json_schema", "json_schema": form}
        asked = {"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": 100} | more
        kinds = []
        if stream:
            usage = {"include_usage": True}
            async with self.openai.chat.completions.stream(**asked, stream_options=usage) as events:
                kinds = [event.type async for event in events]
                answer = await events.get_final_completion()
        else:
            answer = await self.openai.chat.completions.create(**asked)
        message, used = answer.choices[0].message, answer.usage
        details = used.completion_tokens_details
        return Heard(
            message.content or "",
            getattr(message, "reasoning_content", None) or "",
            [(c.id, c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or ()],
            answer.choices[0].finish_reason,
            used.prompt_tokens,
            used.prompt_tokens_details.cached_tokens,
            used.completion_tokens,
            (details.reasoning_tokens or 0) if details else 0,
            kinds,
            answer,
        )

    async def _responses(self, model: str, stream: bool, tools: bool, picture: bool, schema: bool) -> Heard:
        content: Any = "What is it?"
        if picture:
            image = {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}", "detail": "auto"}
            content = [{"type": "input_text", "text": content}, image]
        more: dict[str, Any] = {}
        if tools:
            more["tools"] = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}]
        if schema:
            form = {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}
            more["text"] = {"format": form}
        asked = {"model": model, "input": [{"role": "user", "content": content}], "max_output_tokens": 100}
        kinds, numbers = [], []
        if stream:
            async with self.openai.responses.stream(**asked, **more) as events:
                async for event in events:
                    kinds.append(event.type)
                    numbers.append(event.sequence_number)
                    if event.type == "error":
                        # The SDK's helper leaves it to its user.
                        raise openai.APIError(event.message, request=None, body=None)
                answer = (
                    event.response
                    if event.type == "response.incomplete"
                    else await events.get_final_response()
                )
            assert numbers == list(range(len(numbers)))
        else:
            answer = await self.openai.responses.create(**asked, **more)
        thoughts = [part.text for item in answer.output if item.type == "reasoning" for part in item.summary]
        calls = [
            (i.call_id, i.name, json.loads(i.arguments)) for i in answer.output if i.type == "function_call"
        ]
        why = answer.incomplete_details.reason if answer.incomplete_details else ""
        reason = {"max_output_tokens": "length", "content_filter": "content_filter"}.get(why or "", "stop")
        used = answer.usage
        return Heard(
            answer.output_text,
            "".join(thoughts),
            calls,
            "tool_calls" if calls and reason == "stop" else reason,
            used.input_tokens,
            used.input_tokens_details.cached_tokens,
            used.output_tokens,
            used.output_tokens_details.reasoning_tokens,
            kinds,
            answer,
        )

    async def _messages(self, model: str, stream: bool, tools: bool, picture: bool, schema: bool) -> Heard:
        content: Any = "What is it?"
        if picture:
            source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
            content = [{"type": "text", "text": content}, {"type": "image", "source": source}]
        more: dict[str, Any] = {}
        if tools:
            more["tools"] = [{"name": "weather", "input_schema": SCHEMA}]
        if schema:
            more["output_config"] = {"format": {"type": "json_schema", "schema": SCHEMA}}
        asked = {"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": 100} | more
        kinds = []
        if stream:
            async with self.anthropic.messages.stream(**asked) as events:
                kinds = [event.type async for event in events]
                answer = await events.get_final_message()
        else:
            answer = await self.anthropic.messages.create(**asked)
        used = answer.usage
        reason = {theirs: ours for ours, theirs in _STOPS.items()}[answer.stop_reason]
        return Heard(
            "".join(block.text for block in answer.content if block.type == "text"),
            "".join(block.thinking for block in answer.content if block.type == "thinking"),
            [(block.id, block.name, block.input) for block in answer.content if block.type == "tool_use"],
            reason,
            used.input_tokens + used.cache_read_input_tokens,
            used.cache_read_input_tokens,
            used.output_tokens,
            0,
            kinds,
            answer,
        )
