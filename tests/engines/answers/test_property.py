"""Any answer of known and unknown members: by its chunks, split at any byte, it is the same as by its whole JSON, and its
replay as a stream and in one piece is the same again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.answers.answer import Assembled, Body
from engines.answers.reader import Reader
from engines.chat import ChatRequest
from engines.codecs.table import CODECS

Answer = dict[str, Any]
Event = dict[str, Any] | bytes
Draw = Callable[..., Any]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
SCALAR = st.integers(-(2**40), 2**40) | st.booleans() | st.floats(-1e6, 1e6) | TEXT
LISTED = st.lists(
    st.fixed_dictionaries({"n": st.integers(0, 10**9)}), max_size=4, unique_by=lambda one: one["n"]
)
OBJECT = st.dictionaries(st.sampled_from(["k1", "k2", "k3"]), SCALAR | LISTED, max_size=3)
UNKNOWN = st.dictionaries(
    st.sampled_from(["foo", "bar_results", "native_thing", "x_new", "nämë"]),
    SCALAR | LISTED | OBJECT,
    max_size=3,
)
"""Members that nobody here has heard of."""
REASON = st.sampled_from(["stop", "length", "tool_calls", "content_filter", "eos", "end_turn", "COMPLETE"])
USAGE = st.fixed_dictionaries(
    {"prompt_tokens": st.integers(0, 10**6), "completion_tokens": st.integers(0, 10**6)},
    optional={
        "prompt_tokens_details": st.fixed_dictionaries({"cached_tokens": st.integers(0, 9)}),
        "cost": st.floats(0, 9),
    },
)
HEAD = {"id": "x-1", "created": 1760000000, "model": "m-1"}


# ---- said in pieces


def cut(draw: Draw, whole: Sequence[Any], most: int = 3) -> list[Any]:
    """A text or a list in pieces, in order; some of them may be empty."""
    places = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=most)))
    return [whole[start:end] for start, end in zip([0, *places], [*places, len(whole)], strict=True)]


def spread(draw: Draw, members: Answer, over: int, *, changes: bool) -> list[Answer]:
    """Unknown members, said in so many pieces: lists by parts, objects by members, the rest once or again and again.

    `changes`: what is no list or object may have had another value before.
    """
    said: list[Answer] = [{} for _ in range(over)]
    for name, value in members.items():
        places = sorted(draw(st.lists(st.integers(0, over - 1), min_size=1, max_size=3, unique=True)))
        for place in range(over):
            if draw(st.booleans()):
                said[place][name] = None
        if isinstance(value, list):
            parts = cut(draw, value, len(places) - 1)
        elif isinstance(value, dict):
            keys = cut(draw, list(value), len(places) - 1)
            parts = [{key: value[key] for key in some} for some in keys]
        else:
            parts = [value] * len(places)
            if changes and len(places) > 1:
                parts[0] = draw(SCALAR)
        for place, part in zip(places, parts, strict=False):
            said[place][name] = part
    return said


def framed(draw: Draw, events: Sequence[Event], *, done: bool) -> Body:
    """Events as bytes, framed and split anyhow."""
    end = draw(st.sampled_from([b"\n\n", b"\r\n\r\n"]))
    data = b""
    for event in events:
        if draw(st.integers(0, 5)) == 0:
            data += draw(
                st.sampled_from(
                    [b": keep-alive" + end, b"event: ping" + end[: len(end) // 2] + b"data: {}" + end]
                )
            )
        prefix = draw(st.sampled_from([b"data: ", b"data:"]))
        data += event if isinstance(event, bytes) else prefix + json.dumps(event).encode() + end
    data += b"data: [DONE]" + end if done else b""
    chunks = tuple(piece for piece in cut(draw, data, 8) if piece)
    return Body(chunks, len(data), "text/event-stream")


# ---- answers that have choices


@st.composite
def messages_of_a_chat(draw: Draw) -> Answer:
    texts = draw(
        st.dictionaries(
            st.sampled_from(["content", "refusal", "reasoning", "reasoning_content"]), TEXT, max_size=3
        )
    )
    message: Answer = {"role": "assistant", "content": None} | texts | draw(UNKNOWN)
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": "f", "arguments": draw(TEXT)}}
        | ({"extra_content": draw(OBJECT)} if draw(st.booleans()) else {})
        for n in range(draw(st.integers(0, 3)))
    ]
    return message | ({"tool_calls": calls} if calls else {})


def deltas(draw: Draw, message: Answer) -> list[Answer]:
    """A message in pieces."""
    said: list[Answer] = [{"role": "assistant"}]
    for name in ("reasoning", "reasoning_content", "content", "refusal"):
        if isinstance(message.get(name), str):
            said += [{name: piece} for piece in cut(draw, message[name])]
    at_zero = draw(st.booleans())
    for n, call in enumerate(message.get("tool_calls", ())):
        first, *rest = cut(draw, call["function"]["arguments"])
        index = {"index": 0 if at_zero else n}
        said.append({"tool_calls": [index | call | {"function": {"name": "f", "arguments": first}}]})
        said += [{"tool_calls": [index | {"function": {"arguments": piece}}]} for piece in rest]
    known = {"role", "content", "refusal", "reasoning", "reasoning_content", "tool_calls"}
    unknown = {name: value for name, value in message.items() if name not in known}
    more = spread(draw, unknown, len(said), changes=False)
    return [one | other for one, other in zip(said, more, strict=True)]


@st.composite
def choices_of_a_chat(draw: Draw, index: int) -> tuple[Answer, list[Answer]]:
    """(a choice, the same in pieces)."""
    message, reason, unknown = draw(messages_of_a_chat()), draw(REASON), draw(UNKNOWN)
    pieces = [{"index": index, "delta": delta, "finish_reason": None} for delta in deltas(draw, message)]
    pieces.append({"index": index, "delta": draw(st.sampled_from([{}, None])), "finish_reason": reason})
    choice = {"index": index, "message": message, "finish_reason": reason} | unknown
    if draw(st.booleans()):
        choice["logprobs"] = {"content": draw(LISTED), "refusal": None}
        for piece, part in zip(pieces, cut(draw, choice["logprobs"]["content"], 1), strict=False):
            piece["logprobs"] = {"content": part, "refusal": None}
    more = spread(draw, unknown, len(pieces), changes=True)
    return choice, [one | other for one, other in zip(pieces, more, strict=True)]


@st.composite
def choices_of_a_completion(draw: Draw, index: int) -> tuple[Answer, list[Answer]]:
    text, reason, unknown = draw(TEXT), draw(REASON), draw(UNKNOWN)
    choice = {"index": index, "text": text, "finish_reason": reason, "logprobs": None} | unknown
    pieces = [{"index": index, "text": piece, "finish_reason": None} for piece in cut(draw, text)]
    if text and draw(st.booleans()):
        choice["logprobs"] = {"tokens": draw(LISTED), "top_logprobs": None}
        pieces[0]["logprobs"] = choice["logprobs"]
    pieces.append({"index": index, "text": "", "finish_reason": reason})
    more = spread(draw, unknown, len(pieces), changes=True)
    return choice, [one | other for one, other in zip(pieces, more, strict=True)]


@st.composite
def with_choices(draw: Draw, api: str) -> tuple[Answer, Body]:
    """(an answer in one piece, the same as a stream)."""
    made = choices_of_a_chat if api == "chat" else choices_of_a_completion
    both = [draw(made(index)) for index in range(draw(st.integers(1, 3)))]
    chunk_object = "chat.completion.chunk" if api == "chat" else "text_completion"
    waiting, chunks = [list(pieces) for _, pieces in both], []
    while any(waiting):
        pieces = draw(st.sampled_from([pieces for pieces in waiting if pieces]))
        chunks.append(HEAD | {"object": chunk_object, "choices": [pieces.pop(0)]})
    unknown, usage = draw(UNKNOWN), draw(st.none() | USAGE)
    if usage is not None:
        chunks.append(
            HEAD | {"object": chunk_object, "choices": draw(st.sampled_from([[], None])), "usage": usage}
        )
    if draw(st.booleans()):
        chunks.insert(0, {"id": "", "object": "", "created": 0, "model": "", "choices": []})
    said = spread(draw, unknown, len(chunks), changes=True)
    body = framed(draw, [one | other for one, other in zip(chunks, said, strict=True)], done=True)
    answer = (
        HEAD
        | {"object": chunk_object.removesuffix(".chunk"), "choices": [choice for choice, _ in both]}
        | unknown
    )
    return answer | ({"usage": usage} if usage is not None else {}), body


# ---- messages, responses


@st.composite
def blocks(draw: Draw) -> tuple[Answer, Answer, list[Answer]]:
    """(a block, how it begins, its deltas)."""
    unknown = draw(UNKNOWN)
    match draw(st.sampled_from(["text", "thinking", "tool_use", "redacted_thinking", "brand_new"])):
        case "text":
            cited, text = draw(st.none() | LISTED.filter(bool)), draw(TEXT)
            said = [{"type": "text_delta", "text": piece} for piece in cut(draw, text)]
            said += [{"type": "citations_delta", "citation": one} for one in cited or ()]
            start: Answer = {"type": "text", "text": "", "citations": [] if cited else None}
            return start | {"text": text, "citations": cited} | unknown, start | unknown, said
        case "thinking":
            text = draw(TEXT)
            said = [{"type": "thinking_delta", "thinking": piece} for piece in cut(draw, text)]
            start = {"type": "thinking", "thinking": "", "signature": ""}
            said.append({"type": "signature_delta", "signature": "EuYB"})
            return start | {"thinking": text, "signature": "EuYB"} | unknown, start | unknown, said
        case "tool_use":
            given_input = draw(OBJECT)
            start = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}} | unknown
            parts = cut(draw, json.dumps(given_input))
            said = [{"type": "input_json_delta", "partial_json": part} for part in parts]
            return start | {"input": given_input}, start, said
        case kind:
            whole = {"type": kind, "data": draw(TEXT)} | unknown
            return whole, whole, []


@st.composite
def messages(draw: Draw) -> tuple[Answer, Body]:
    made = [draw(blocks()) for _ in range(draw(st.integers(0, 4)))]
    early, late = (
        draw(UNKNOWN),
        draw(st.dictionaries(st.sampled_from(["context_management", "late_thing"]), OBJECT)),
    )
    head = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "stop_sequence": None,
    } | early
    reason = draw(st.sampled_from(["end_turn", "max_tokens", "tool_use", "pause_turn", "refusal"]))
    begun = {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 2}
    start = head | {"content": [], "stop_reason": None, "usage": begun}
    events: list[Event] = [{"type": "message_start", "message": start}]
    for index, (_, start, said) in enumerate(made):
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in said]
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 9}} | late)
    events.append({"type": "message_stop"})
    content = [block for block, _, _ in made]
    whole = head | {"content": content, "stop_reason": reason, "usage": begun | {"output_tokens": 9}} | late
    return whole, framed(draw, events, done=draw(st.booleans()))


@st.composite
def responses(draw: Draw) -> tuple[Answer, Body]:
    text = draw(TEXT)
    part = {"type": "output_text", "text": text, "annotations": draw(LISTED)} | draw(UNKNOWN)
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    other = {"type": draw(st.sampled_from(["reasoning", "function_call", "brand_new"])), "id": "i_1"} | draw(
        UNKNOWN
    )
    output = draw(st.sampled_from([[item], [other, item | draw(UNKNOWN)]]))
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m-1"} | draw(UNKNOWN)
    whole = head | {"status": "completed", "output": output, "usage": usage}
    begun = head | {"status": "in_progress", "output": []}
    events: list[Event] = [{"type": "response.created", "response": begun}]
    events += [
        {"type": "response.output_text.delta", "item_id": "msg_1", "delta": each} for each in cut(draw, text)
    ]
    events.append({"type": "response.completed", "response": whole})
    numbered = [event | {"sequence_number": n} for n, event in enumerate(events) if isinstance(event, dict)]
    return whole, framed(draw, numbered, done=False)


# ---- the property


def plain(said: Any) -> Any:
    """Without what is null: it says nothing."""
    if isinstance(said, dict):
        return {name: plain(value) for name, value in said.items() if value is not None}
    return [plain(one) for one in said] if isinstance(said, list) else said


def own(assembled: Assembled | None) -> Answer:
    """The answer, as its API says it in one piece."""
    assert assembled is not None and assembled.whole
    answer: Answer = plain(assembled.completion if assembled.own is None else assembled.own)
    return answer


def holds(api: str, answer: Answer, streamed: Body) -> None:
    codec = CODECS[api]
    data = orjson.dumps(answer)
    by_json = codec.assembled(Body((data,), len(data), "application/json"))
    by_stream = codec.assembled(streamed)
    assert own(by_stream) == own(by_json) == plain(answer)
    assert by_stream is not None and by_json is not None
    assert plain(by_stream.completion) == plain(by_json.completion)
    chat = ChatRequest(b"", {}, "m", [], stream=True, include_usage="usage" in answer, api=CODECS[api].api)
    for first in (by_stream, by_json):
        stored = codec.stored(first)
        again = codec.events(stored, chat)
        assert own(codec.assembled(Body((again,), len(again), "text/event-stream"))) == plain(answer)
        once = codec.replayed(stored, chat)
        assert own(codec.assembled(Body((once,), len(once), "application/json"))) == plain(answer)


@settings(max_examples=80)
@given(with_choices("chat"))
def test_chat_completions(made: tuple[Answer, Body]) -> None:
    holds("chat", *made)


@settings(max_examples=50)
@given(with_choices("completions"))
def test_text_completions(made: tuple[Answer, Body]) -> None:
    holds("completions", *made)


@settings(max_examples=50)
@given(messages())
def test_messages(made: tuple[Answer, Body]) -> None:
    holds("messages", *made)


@settings(max_examples=40)
@given(responses())
def test_responses(made: tuple[Answer, Body]) -> None:
    holds("responses", *made)


# ---- read as it passes


@settings(max_examples=40)
@given(st.data(), st.sampled_from(["chat", "completions", "messages", "responses"]))
def test_wherever_its_bytes_are_split_it_tells_the_same_as_it_passes(data: st.DataObject, api: str) -> None:
    made = {"messages": messages, "responses": responses}.get(api, lambda: with_choices(api))
    _, body = data.draw(made())
    whole = b"".join(body.chunks)
    at_once, piecemeal, asked_often = (Reader(body.content_type) for _ in range(3))
    at_once.feed(whole)
    for chunk in body.chunks:
        piecemeal.feed(chunk)
        asked_often.feed(chunk)
        asked_often.usage(7)
    assert at_once.heard.ended and piecemeal.heard.ended and asked_often.heard.ended
    assert at_once.told() == piecemeal.told() == asked_often.told()
    assert at_once.usage(7) == piecemeal.usage(7) == asked_often.usage(7)
    assert at_once.model == piecemeal.model == "m-1"
