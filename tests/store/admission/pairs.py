"""A finished pair that breaks no rule, to be broken one fact at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engines.chat import ChatRequest
from store.admission import Pair


def chat(content: Any = "Q?", **fields: Any) -> ChatRequest:
    """A request with one user message."""
    return ChatRequest(
        b"", fields, "m", [{"role": "user", "content": content}], stream=False, include_usage=False
    )


def pair(question: str = "How long does an egg take?", answer: str = "Six minutes.", **facts: Any) -> Pair:
    """What the reference engine answered, complete and in words."""
    good = Pair(
        offers_tools=False,
        plain_text=True,
        status=200,
        complete=True,
        opted_out=False,
        from_reference=True,
        question=question,
        answer=answer,
        finish_reason="stop",
        choices=1,
        calls_tools=False,
    )
    return replace(good, **facts)
