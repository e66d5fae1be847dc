"""Short answers of each API, whole and streamed, that tell a usage; and longer ones, event by event, to be left in the
middle."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.flow.invoice.told import Told

HEAD = {"id": "x-1", "created": 1760000000, "model": "m-1"}
TEXT = "Hi there."
DONE = b"data: [DONE]\n\n"
PATHS = {"chat": "/chat/completions"}


def path_of(api: str) -> str:
    return PATHS.get(api, "/" + api)


def asked_of(api: str, question: str, model: str, *, stream: bool = False) -> dict[str, Any]:
    """A request of that API."""
    body: dict[str, Any] = {"model": model}
    match api:
        case "chat" | "messages":
            body |= {"messages": [{"role": "user", "content": question}], "max_tokens": 2000}
        case "completions":
            body |= {"prompt": question, "max_tokens": 2000}
        case _:
            body |= {"input": question}
    if stream:
        body["stream"] = True
    if stream and api in ("chat", "completions"):
        body["stream_options"] = {"include_usage": True}
    return body


def sse(event: dict[str, Any]) -> bytes:
    """A server-sent event."""
    kind = f"event: {event['type']}\n" if "type" in event else ""
    return f"{kind}data: {json.dumps(event)}\n\n".encode()


def whole(told: Told) -> dict[str, Any]:
    """The answer in one piece."""
    return whole_of(told.api, told.usage, in_choice=told.place == "choice")


def whole_of(api: str, usage: Any, *, in_choice: bool = False) -> dict[str, Any]:
    match api:
        case "chat" | "completions":
            said = {"message": {"role": "assistant", "content": TEXT}} if api == "chat" else {"text": TEXT}
            choice = {"index": 0, "finish_reason": "stop"} | said
            if in_choice:
                return HEAD | {"object": "chat.completion", "choices": [choice | {"usage": usage}]}
            kind = "chat.completion" if api == "chat" else "text_completion"
            return HEAD | {"object": kind, "choices": [choice], "usage": usage}
        case "responses":
            return _response(usage)
        case "messages":
            return _message() | {
                "content": [{"type": "text", "text": TEXT}],
                "stop_reason": "end_turn",
                "usage": usage,
            }
    return {
        "object": "list",
        "model": "m-1",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}],
        "usage": usage,
    }


def streamed(told: Told) -> list[bytes]:
    """The same as a stream."""
    if told.api == "responses":
        return [*map(sse, _responding([("response.output_text.delta", TEXT)], told.usage))]
    if told.api == "messages":
        at_start = (
            {} if told.place == "delta" else {n: v for n, v in told.usage.items() if n != "output_tokens"}
        )
        at_end = told.usage if told.place == "delta" else {"output_tokens": told.usage["output_tokens"]}
        return [*map(sse, _messaging(at_start, at_end))]
    first = choice_of(told.api, TEXT)
    last: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
    last["delta" if told.api == "chat" else "text"] = {} if told.api == "chat" else ""
    chunk = HEAD | {"object": "chat.completion.chunk" if told.api == "chat" else "text_completion"}
    begun, ended = chunk | {"choices": [first]}, chunk | {"choices": [last]}
    match told.place:
        case "choice":
            events = [begun, chunk | {"choices": [last | {"usage": told.usage}]}]
        case "x_groq":
            events = [begun, ended | {"x_groq": {"id": "req_1", "usage": told.usage}}]
        case "every":
            so_far = told.usage | {"completion_tokens": 1, "total_tokens": told.due[0] + 1}
            events = [begun | {"usage": so_far}, ended | {"usage": told.usage}]
        case _:
            events = [begun, ended, chunk | {"choices": [], "usage": told.usage}]
    return [*map(sse, events), DONE]


def choice_of(api: str, text: str, **more: Any) -> dict[str, Any]:
    said = {"delta": {"role": "assistant", "content": text}} if api == "chat" else {"text": text}
    return {"index": 0, "finish_reason": None} | said | more


def _response(usage: Any, status: str = "completed") -> dict[str, Any]:
    part = {"type": "output_text", "text": TEXT, "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1760000000,
        "model": "m-1",
        "status": status,
        "output": [item] if status == "completed" else [],
        "usage": usage,
    }


def _responding(deltas: list[tuple[str, str]], usage: Any) -> list[dict[str, Any]]:
    begun = _response(None, "in_progress")
    at = {"item_id": "item_1", "output_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        *({"type": kind, "delta": text} | at for kind, text in deltas),
        {"type": "response.completed", "response": _response(usage)},
    ]
    return [event | {"sequence_number": number} for number, event in enumerate(events)]


def _message() -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "stop_sequence": None}


def _messaging(at_start: dict[str, Any], at_end: dict[str, Any]) -> list[dict[str, Any]]:
    head = _message() | {"content": [], "stop_reason": None}
    begun = {"input_tokens": 0, "output_tokens": 1} | at_start
    delta = {"type": "text_delta", "text": TEXT}
    return [
        {"type": "message_start", "message": head | {"usage": begun}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": at_end,
        },
        {"type": "message_stop"},
    ]


# ---- long ones, to be left


@dataclass(frozen=True)
class Piece:
    """An event of a stream."""

    data: bytes
    said: str = ""
    """What the model says in it, of whichever kind."""
    told_tokens: int = 0
    """Tokens of the answer that were told up to here, if it was said how many so far."""


@dataclass(frozen=True)
class Left:
    """A stream that ends by telling its usage; to be left after any of its events."""

    name: str
    api: str
    pieces: tuple[Piece, ...]
    told_tokens: int = 500

    @property
    def first(self) -> int:
        """How many events there are up to the first that says something."""
        return next(n for n, piece in enumerate(self.pieces, 1) if piece.said)


WORDS = (
    "Once upon a time, there was a gateway ",
    "that counted every token it had passed on, ",
    "and slept.",
)
USED = {"prompt_tokens": 20, "completion_tokens": 500, "total_tokens": 520}


def _left_chat(name: str, *deltas: tuple[dict[str, Any], str], finish: str = "stop", **more: Any) -> Left:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return sse(HEAD | {"object": "chat.completion.chunk", "choices": [choice]} | more)

    usage = sse(HEAD | {"object": "chat.completion.chunk", "choices": [], "usage": USED})
    return Left(
        name,
        "chat",
        (
            Piece(chunk({"role": "assistant", "content": ""})),
            *(Piece(chunk(delta), said) for delta, said in deltas),
            Piece(chunk({}, finish)),
            Piece(usage),
            Piece(DONE),
        ),
    )


def _call(index: int, arguments: str, name: str = "") -> tuple[dict[str, Any], str]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    head = {"id": f"call_{index}", "type": "function"} if name else {}
    return {"tool_calls": [{"index": index, "function": function} | head]}, name + arguments


def _two_choices() -> Left:
    def chunk(index: int, text: str, finish: str | None = None) -> Piece:
        choice = {"index": index, "delta": {"content": text} if text else {}, "finish_reason": finish}
        return Piece(sse(HEAD | {"object": "chat.completion.chunk", "choices": [choice]}), text)

    told = Piece(sse(HEAD | {"object": "chat.completion.chunk", "choices": [], "usage": USED}))
    said = [chunk(index, text) for text in WORDS for index in (0, 1)]
    return Left(
        "chat two choices", "chat", (*said, chunk(0, "", "stop"), chunk(1, "", "stop"), told, Piece(DONE))
    )


def _growing() -> Left:
    """One that tells after each chunk how many tokens it has thought and said so far."""

    def chunk(n: int, text: str, finish: str | None = None) -> Piece:
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
        usage = {"prompt_tokens": 20, "completion_tokens": 100 * n, "total_tokens": 20 + 100 * n}
        event = HEAD | {"object": "chat.completion.chunk", "choices": [choice], "usage": usage}
        return Piece(sse(event), text, 100 * n)

    said = [chunk(n, text) for n, text in enumerate(WORDS, 2)]
    return Left("chat usage so far", "chat", (*said, chunk(5, "", "stop"), Piece(DONE)))


def _completions() -> Left:
    def chunk(text: str, finish: str | None = None) -> bytes:
        choice = {"index": 0, "text": text, "finish_reason": finish, "logprobs": None}
        return sse(HEAD | {"object": "text_completion", "choices": [choice]})

    told = sse(HEAD | {"object": "text_completion", "choices": [], "usage": USED})
    said = [Piece(chunk(text), text) for text in WORDS]
    return Left(
        "completions text", "completions", (*said, Piece(chunk("", "stop")), Piece(told), Piece(DONE))
    )


def _responses(name: str, *kinds: str) -> Left:
    usage = {"input_tokens": 20, "output_tokens": 500, "total_tokens": 520}
    deltas = [(kind, text) for kind in kinds for text in WORDS]
    said = {n: text for n, (_, text) in enumerate(deltas, 2)}
    events = _responding(deltas, usage)
    return Left(name, "responses", tuple(Piece(sse(each), said.get(n, "")) for n, each in enumerate(events)))


def _messages() -> Left:
    head = _message() | {"content": [], "stop_reason": None}
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            [
                *({"type": "thinking_delta", "thinking": text} for text in WORDS),
                {"type": "signature_delta", "signature": "EuYB" * 40},
            ],
        ),
        ({"type": "text", "text": ""}, [{"type": "text_delta", "text": text} for text in WORDS]),
        (
            {"type": "tool_use", "id": "toolu_1", "name": "save", "input": {}},
            [
                {"type": "input_json_delta", "partial_json": each}
                for each in ('{"text": ', '"as long as this"}')
            ],
        ),
    ]
    usage = {"input_tokens": 20, "output_tokens": 1}
    pieces = [Piece(sse({"type": "message_start", "message": head | {"usage": usage}}))]
    for index, (block, deltas) in enumerate(blocks):
        pieces.append(Piece(sse({"type": "content_block_start", "index": index, "content_block": block})))
        for delta in deltas:
            said = delta.get("text") or delta.get("thinking") or delta.get("partial_json") or ""
            pieces.append(Piece(sse({"type": "content_block_delta", "index": index, "delta": delta}), said))
        pieces.append(Piece(sse({"type": "content_block_stop", "index": index})))
    ended = {"stop_reason": "tool_use", "stop_sequence": None}
    pieces.append(Piece(sse({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 500}})))
    return Left("messages thinking, text, tool", "messages", (*pieces, Piece(sse({"type": "message_stop"}))))


LEFT: tuple[Left, ...] = (
    _left_chat("chat text", *(({"content": text}, text) for text in WORDS)),
    _left_chat(
        "chat tool calls",
        _call(0, "", "look_up_the_weather"),
        _call(0, '{"city": "Longyearbyen",'),
        _call(0, ' "unit": "celsius"}'),
        _call(1, '{"city": "Oslo"}', "look_up_the_news"),
        finish="tool_calls",
    ),
    _left_chat(
        "chat reasoning_content",
        *(({"reasoning_content": text}, text) for text in WORDS),
        ({"content": "42"}, "42"),
    ),
    _left_chat("chat reasoning", *(({"reasoning": text}, text) for text in WORDS)),
    _left_chat("chat refusal", *(({"refusal": text}, text) for text in WORDS)),
    _left_chat(
        "chat transcript", *(({"audio": {"transcript": text, "data": "AAAA"}}, text) for text in WORDS)
    ),
    _left_chat(
        "chat blocks",
        *(
            ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]}, text)
            for text in WORDS
        ),
    ),
    _two_choices(),
    _growing(),
    _completions(),
    _responses("responses text", "response.output_text.delta"),
    _responses("responses function call", "response.function_call_arguments.delta"),
    _responses(
        "responses reasoning, refusal",
        "response.reasoning_text.delta",
        "response.reasoning_summary_text.delta",
        "response.refusal.delta",
    ),
    _messages(),
)
