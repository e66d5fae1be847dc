"""What is asked of the gateway while its event loop is watched: each load is large, or looks small and is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"


@dataclass(frozen=True)
class Load:
    """One request, made anew for each repetition."""

    name: str
    body: Callable[[int], bytes]
    budget_ms: float | None = None
    """The longest stall that is promised; None where nothing is."""
    path: str = CHAT
    headers: dict[str, str] = field(default_factory=dict)
    known: bool = False
    """Asked once before, unwatched: the answer comes from memory."""


def chat(n: int, content: Any, **more: Any) -> bytes:
    """The n-th of a chat's requests. JSON as it is usually sent, with nothing else to tell one from another."""
    messages = (
        content
        if isinstance(content, list) and "role" in content[0]
        else [{"role": "user", "content": content}]
    )
    return json.dumps({"model": "m", "seed": n, "messages": messages, **more}, ensure_ascii=False).encode()


def text(n: int, size_mb: float) -> str:
    """So much text, with quotation marks, line ends and some letters of two bytes."""
    line = f'Line of prompt {n}: "to be, or not to be", that is the question; naivety counts.\n'
    return (line * (int(size_mb * 1e6) // len(line) + 1))[: int(size_mb * 1e6)]


def _parts(n: int) -> bytes:
    return chat(n, [{"type": "text", "text": f"part {i}"} for i in range(100_000)])


def _messages(n: int) -> bytes:
    return chat(
        n, [{"role": "user" if i % 2 == 0 else "assistant", "content": f"turn {i}"} for i in range(50_000)]
    )


def _colons(n: int) -> bytes:
    return chat(n, '":' * 350_000)


def _integers(n: int) -> bytes:
    """An integer that only the slow and exact way of writing JSON can write."""
    return chat(n, text(n, 1), metadata={"beyond": 2**70})


def loads(*, quick: bool) -> list[Load]:
    """All of them; `quick`: only those that take no time."""
    long, event, packed = ({"x-bench-answer": name} for name in ("long", "event", "packed"))
    found = [
        Load("1 MB prompt", lambda n: chat(n, text(n, 1)), 20),
        Load("1 MB prompt, known", lambda n: chat(n, text(n, 1)), 20, known=True),
        Load("0.9 MB answer, as JSON, known", lambda n: chat(n, "Q?"), 20, headers=long, known=True),
        Load(
            "0.9 MB answer, as a stream, known",
            lambda n: chat(n, "Q?", stream=True),
            20,
            headers=long,
            known=True,
        ),
    ]
    if quick:
        return found
    return [
        *found,
        Load("0.7 MB of quotation marks and colons", _colons, 20),
        Load("1 MB prompt with an integer of 70 bits", _integers, 20),
        Load("100,000 content parts, 3.7 MB", _parts, 50),
        Load("50,000 messages, 2.2 MB", _messages, 50),
        Load("10 MB prompt", lambda n: chat(n, text(n, 10)), 50),
        Load("30 MB prompt", lambda n: chat(n, text(n, 30)), 50),
        Load("30 MB prompt, known", lambda n: chat(n, text(n, 30)), 50, known=True),
        Load("a stream with one event of 20 MB", lambda n: chat(n, "Q?", stream=True), 50, headers=event),
        Load(
            "1 MB of gzip that holds 1 GB, chat", lambda n: chat(n, "Q?", logprobs=True), 20, headers=packed
        ),
        Load(
            "1 MB of gzip that holds 1 GB, embeddings",
            lambda n: json.dumps({"model": "e", "input": f"text {n}"}).encode(),
            20,
            EMBEDDINGS,
            packed,
        ),
    ]
