"""Builds request bodies, repeatable from a seed, with repeats, paraphrases, shared prefixes and conversations.

Every process makes the same sequence of choices (cheap) and builds bodies only for its own share of them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import orjson

from loadtest.errors import BadTrace
from loadtest.paraphrase import reword
from loadtest.plan import LoadPlan
from loadtest.sources import Ask, make_source

_MEMORY = 20_000  # how far back a repeat may reach, in fresh requests


@dataclass(frozen=True, slots=True)
class Choice:
    """Which request: the `origin`-th fresh one, reworded as `variant` (0: unchanged)."""

    origin: int
    variant: int = 0


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes to send; `expect` is text that a right answer contains ("" if unknown); `after`: a conversation's next turns."""

    data: bytes
    expect: str = ""
    after: tuple[bytes, ...] = ()


class Workload:
    """The sequence of choices, and the bodies for them."""

    def __init__(self, plan: LoadPlan) -> None:
        self.spec = plan.workload
        self._endpoint = plan.target.endpoint
        self._source = make_source(plan.workload, plan.seed)
        self._rng = random.Random(f"choices {plan.seed}")
        self._fresh = 0
        self._base: dict[str, Any] = {"model": self.spec.model}
        if self.spec.extra_body:
            try:
                extra = orjson.loads(self.spec.extra_body)
            except ValueError as error:
                raise BadTrace(f"the extra body {self.spec.extra_body[:80]!r} is not JSON: {error}") from None
            if not isinstance(extra, dict):
                raise BadTrace(f"the extra body {self.spec.extra_body[:80]!r} must be a JSON object")
            self._base |= extra

    def choose(self) -> Choice:
        """The next request of the whole run; call it for every one, in order."""
        spec = self.spec
        if spec.repeat_share or spec.paraphrase_share:
            dice = self._rng.random()
            if self._fresh and dice < spec.repeat_share + spec.paraphrase_share:
                origin = self._rng.randrange(max(0, self._fresh - _MEMORY), self._fresh)
                variant = 0 if dice < spec.repeat_share else self._rng.randrange(1, 1_000_000)
                return Choice(origin, variant)
        self._fresh += 1
        return Choice(self._fresh - 1)

    def build(self, choice: Choice) -> Body:
        """The bytes of a chosen request."""
        ask = self._source.ask(choice.origin)
        if self._endpoint == "embeddings":
            return Body(orjson.dumps({**self._base, "input": _last_text(ask)}), ask.expect)
        if self.spec.conversations:
            turns = [self._encode(turn, ask.max_tokens) for turn in _turns(ask.messages)]
            return Body(turns[0], "", tuple(turns[1:]))
        messages = ask.messages
        if choice.variant:
            messages = _reworded(ask, choice.variant)
        return Body(self._encode(messages, ask.max_tokens), ask.expect)

    def _encode(self, messages: list[dict[str, Any]], max_tokens: int) -> bytes:
        body = dict(self._base)
        if self._endpoint == "completions":
            body["prompt"] = "\n".join(str(message.get("content", "")) for message in messages)
        else:
            body["messages"] = messages
        if max_tokens:
            body["max_tokens"] = max_tokens
        if self.spec.stream:
            body["stream"] = True
            if self.spec.ask_usage:
                body["stream_options"] = {"include_usage": True}
        return orjson.dumps(body)


def _last_text(ask: Ask) -> str:
    return str(ask.messages[-1].get("content", ""))


def _reworded(ask: Ask, variant: int) -> list[dict[str, Any]]:
    last = ask.messages[-1]
    text = str(last.get("content", ""))
    text = ask.paraphrases[variant % len(ask.paraphrases)] if ask.paraphrases else reword(text, variant)
    return [*ask.messages[:-1], {**last, "content": text}]


def _turns(messages: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Every beginning of the conversation that ends in a user's turn; recorded answers stay in between."""
    ends = [k + 1 for k, message in enumerate(messages) if message.get("role") == "user"]
    return [messages[:end] for end in ends] or [messages]
