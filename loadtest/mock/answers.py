"""The bytes of the mock's answers: OpenAI JSON and server-sent events, prepared once and reused.

One "token" is one word here. Knows nothing of sockets and time.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

import orjson

_WORDS = (
    "the lead has learnt every line of this long play and waits in the wings while another actor speaks"
    " it word for word under warm lights until somebody forgets"
)
_STOCK = tuple(_WORDS.split())
_CREATED = 1_700_000_000


def text_of(tokens: int, first: int = 0) -> str:
    """`tokens` words; `first` is the position in the list of words to start at."""
    return (
        "".join(f" {_STOCK[k % len(_STOCK)]}" for k in range(first, first + tokens)).lstrip()
        if tokens
        else ""
    )


def usage_of(prompt_tokens: int, tokens: int) -> dict[str, int]:
    """OpenAI's usage object."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": tokens,
        "total_tokens": prompt_tokens + tokens,
    }


def http_head(status: int, content_type: str, length: int, extra: str = "") -> bytes:
    """Status line and headers; `length` -1 means chunked. `extra` holds whole header lines."""
    body = "transfer-encoding: chunked" if length < 0 else f"content-length: {length}"
    reason = {200: "OK", 404: "Not Found", 429: "Too Many Requests"}.get(status, "Mock")
    return (
        f"HTTP/1.1 {status} {reason}\r\nserver: understudy-mock\r\ncontent-type: {content_type}\r\n{body}\r\n{extra}\r\n"
    ).encode()


def json_response(status: int, payload: Any, extra: str = "") -> bytes:
    """A whole HTTP response with a JSON body."""
    body = payload if isinstance(payload, bytes) else orjson.dumps(payload)
    return http_head(status, "application/json", len(body), extra) + body


def error_response(status: int, message: str) -> bytes:
    """A whole HTTP response in OpenAI's error shape."""
    kind = (
        "rate_limit_error" if status == 429 else "server_error" if status >= 500 else "invalid_request_error"
    )
    extra = "retry-after: 1\r\n" if status in (429, 503) else ""
    return json_response(
        status, {"error": {"message": message, "type": kind, "param": None, "code": None}}, extra
    )


@lru_cache(maxsize=4096)
def _message_body(chat: bool, model: str, tokens: int, prompt_tokens: int) -> tuple[bytes, bytes]:
    text = text_of(tokens)
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "logprobs": None}
    choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    body = orjson.dumps(
        {
            "id": "@ID@",
            "object": "chat.completion" if chat else "text_completion",
            "created": _CREATED,
            "model": model,
            "choices": [choice],
            "usage": usage_of(prompt_tokens, tokens),
        }
    )
    before, _, after = body.partition(b"@ID@")
    return before, after


def message_body(chat: bool, model: str, tokens: int, prompt_tokens: int, serial: int) -> bytes:
    """The JSON of a non-streamed answer; about 1 KiB at 128 tokens."""
    before, after = _message_body(chat, model, tokens, prompt_tokens)
    return b"%schatcmpl-mock-%08d%s" % (before, serial, after)


def _frame(payload: Any) -> bytes:
    data = b"data: " + (payload if isinstance(payload, bytes) else orjson.dumps(payload)) + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


class StreamFrames:
    """Every frame of one streamed answer, each already wrapped as an HTTP chunk.

    `opening` goes out with the first token, `closing` with the last; `token(k)` is the k-th token's frame.
    """

    def __init__(self, chat: bool, model: str, tokens: int, usage: dict[str, int] | None) -> None:
        self._chat = chat
        self._base = {
            "id": "chatcmpl-mock",
            "object": "chat.completion.chunk" if chat else "text_completion",
            "created": _CREATED,
            "model": model,
        }
        self._tokens = [self._chunk(f" {word}") for word in _STOCK]
        self.count = tokens
        self.opening = self._chunk("", role="assistant") if chat else b""
        done = _frame({**self._base, "choices": [self._choice({}, "stop")]})
        tail = _frame({**self._base, "choices": [], "usage": usage}) if usage else b""
        self.closing = done + tail + _frame(b"[DONE]") + b"0\r\n\r\n"
        self.error = _frame({"error": {"message": "mock fault in mid-stream", "type": "server_error"}})

    def _choice(self, content: dict[str, str], finish: str | None) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "logprobs": None}
        return choice | ({"delta": content} if self._chat else {"text": content.get("content", "")})

    def _chunk(self, text: str, **more: str) -> bytes:
        return _frame({**self._base, "choices": [self._choice({**more, "content": text}, None)]})

    def token(self, k: int) -> bytes:
        """The frame of token `k`, counted from 0."""
        return self._tokens[k % len(self._tokens)]

    def whole(self) -> bytes:
        """The whole stream as bytes."""
        return self.opening + b"".join(map(self.token, range(self.count))) + self.closing


@lru_cache(maxsize=512)
def stream_frames(chat: bool, model: str, tokens: int, prompt_tokens: int, with_usage: bool) -> StreamFrames:
    """The frames, shared by all answers of this shape."""
    return StreamFrames(chat, model, tokens, usage_of(prompt_tokens, tokens) if with_usage else None)


@lru_cache(maxsize=512)
def whole_stream(chat: bool, model: str, tokens: int, prompt_tokens: int, with_usage: bool) -> bytes:
    """A stream without delays, as bytes."""
    return stream_frames(chat, model, tokens, prompt_tokens, with_usage).whole()


def embeddings(model: str, inputs: list[Any], size: int = 64) -> dict[str, Any]:
    """OpenAI's embeddings answer, with vectors that depend on the input alone."""
    data = []
    for index, item in enumerate(inputs):
        seed = zlib.crc32(item.encode() if isinstance(item, str) else orjson.dumps(item))
        vector = [((seed * (2 * k + 1)) % 10007) / 5003.5 - 1.0 for k in range(size)]
        data.append({"object": "embedding", "index": index, "embedding": vector})
    tokens = sum(len(str(item)) // 5 + 1 for item in inputs)
    return {
        "object": "list",
        "model": model,
        "data": data,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
