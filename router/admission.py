"""Which answers may become examples: a chain of small named rules, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engines.chat import ChatRequest
from router.digest import carries_tools, is_plain_text


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished answer, as the rules see it."""

    chat: ChatRequest
    status: int
    complete: bool
    """The terminal event was seen, or the body had its full length."""
    opted_out: bool
    from_reference: bool
    """The model's reference (large) engine answered, without examples of ours."""
    question: str
    answer: str
    finish_reason: str
    choices: int
    calls_tools: bool
    max_characters: int


RULES: tuple[tuple[str, Callable[[Finished], bool]], ...] = (
    ("opted_out", lambda f: f.opted_out),
    ("error", lambda f: not 200 <= f.status < 300),
    ("incomplete", lambda f: not f.complete),
    ("not_the_reference", lambda f: not f.from_reference),
    ("several_choices", lambda f: f.choices != 1),
    ("tool_calls", lambda f: f.calls_tools or carries_tools(f.chat)),
    ("not_plain_text", lambda f: not is_plain_text(f.chat.messages)),
    ("cut_short", lambda f: f.finish_reason != "stop"),
    ("empty", lambda f: not f.question.strip() or not f.answer.strip()),
    ("too_long", lambda f: len(f.question) > f.max_characters or len(f.answer) > f.max_characters),
)
"""(reason to refuse, test). Order matters only for which reason is counted."""


def refusal(finished: Finished) -> str | None:
    """The first reason not to admit, or None."""
    return next((reason for reason, refuses in RULES if refuses(finished)), None)
