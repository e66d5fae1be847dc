"""Adds the chosen examples to a request's messages, and estimates the tokens they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engines import chat as chats
from engines.chat import ChatRequest, estimated_tokens
from router.plan import Candidate

_STABLE = ("system", "developer")


def with_examples(
    messages: Sequence[Mapping[str, Any]], examples: Sequence[Candidate]
) -> list[Mapping[str, Any]]:
    """The messages with `examples` as user/assistant turns, in the given order.

    They follow the client's leading system messages and precede its conversation: inside the system prompt they could
    be read as instructions, and before it they would break the engine's prefix cache.
    """
    return with_pairs(messages, [(one.example.question, one.example.answer) for one in examples])


def with_pairs(
    messages: Sequence[Mapping[str, Any]], pairs: Sequence[tuple[str, str]]
) -> list[Mapping[str, Any]]:
    """The same of (question, answer)."""
    lead = 0
    while lead < len(messages) and messages[lead].get("role") in _STABLE:
        lead += 1
    shown: list[Mapping[str, Any]] = []
    for question, answer in pairs:
        shown.append({"role": "user", "content": question})
        shown.append({"role": "assistant", "content": answer})
    return [*messages[:lead], *shown, *messages[lead:]]


def example_tokens(candidate: Candidate) -> int:
    """Estimated tokens an example adds to a prompt, including its two turns."""
    return estimated_tokens(candidate.example.question) + estimated_tokens(candidate.example.answer) + 8


_ANSWER_TOKENS = 512
"""Tokens reserved for an answer whose length the client does not limit."""


def prompt_tokens(chat: ChatRequest) -> int:
    """Estimated tokens of the request, without examples and without its answer: what its input costs."""
    return chats.prompt_tokens(chat.messages)


def most_answer_tokens(chat: ChatRequest) -> int | None:
    """The longest answer that the client allows; None if it does not say."""
    bound = chat.fields.get("max_completion_tokens") or chat.fields.get("max_tokens")
    return bound if isinstance(bound, int) and bound > 0 else None


def tokens_needed(chat: ChatRequest) -> int:
    """Estimated tokens of the request and the longest answer it may get, without examples: what a context must hold."""
    return prompt_tokens(chat) + (most_answer_tokens(chat) or _ANSWER_TOKENS)
