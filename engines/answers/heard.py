"""What an answer has told so far, in any API: whether it ended, what it used, and how much it said, to estimate by.

Usage is believed only if the terminal event came, and nothing was said between the two: a stream that was left before told
nothing yet, or told the beginning (`message_start` says one token). Else the output is estimated from all that was said, in
whichever member.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from engines.answers.terminal import TERMINAL_TYPES, choices_of, indices
from engines.answers.usage import Told
from engines.chat import CHARACTERS_PER_TOKEN, Usage

_NOT_SAID = frozenset(
    {
        "role",
        "id",
        "call_id",
        "item_id",
        "type",
        "object",
        "index",
        "status",
        "signature",
        "url",
        "data",
        "format",
    }
    | {"encrypted_content", "thought_signature", "annotations", "citations", "phase"}
)
"""Members of what a model says that are no words of it: names of things, and bytes of pictures, sounds and proofs."""
_AS_JSON = frozenset({"input", "arguments"})
_ENCRYPTED = "redacted_thinking"


def characters(said: Any) -> int:
    """How many characters a model has said in this part of an answer: text, reasoning, names and arguments of tool calls."""
    if isinstance(said, str):
        return len(said)
    if isinstance(said, list):
        return sum(map(characters, said))
    if not isinstance(said, dict):
        return 0
    hidden = said.get("data") if said.get("type") == _ENCRYPTED else None
    return (len(hidden) if isinstance(hidden, str) else 0) + sum(
        len(orjson.dumps(value))
        if name in _AS_JSON and isinstance(value, dict) and value
        else characters(value)
        for name, value in said.items()
        if name not in _NOT_SAID
    )


@dataclass(slots=True)
class Heard:
    """What the events of an answer, or the whole of one, have told. `hear` takes them in order."""

    told: Told = field(default_factory=Told)
    believed: bool = False
    """The usage that was told is that of the whole answer."""
    said_characters: int = 0
    pieces: int = 0
    """Deltas that said something: each at least a token."""
    whole_characters: int = 0
    """Said in items and answers that came whole; their deltas may have said the same before."""
    _begun: set[int] = field(default_factory=set)
    _ended: set[int] = field(default_factory=set)
    _over: bool = False
    _latest: bool = False
    """Nothing was said since the usage was told."""

    @property
    def ended(self) -> bool:
        """Whether the terminal event came: the API's last one, or a finish reason of each choice that began."""
        return self._over or (bool(self._ended) and self._ended >= self._begun)

    def hear(self, event: Any, *, whole: bool = False) -> None:
        """Take note of an event of a stream; `whole`: of an answer that came in one piece."""
        if not isinstance(event, dict):
            return
        said, choices = self.said_characters, choices_of(event)
        self._count(event, choices)
        self._ends(event, choices, whole=whole)
        self._latest = self.told.hear(event, choices) or (self._latest and said == self.said_characters)
        self.believed = self.believed or (self._latest and self.ended)

    def done(self) -> None:
        """Take note of `[DONE]`, after which nothing comes."""
        self._over = True
        self.believed = self.believed or self._latest

    def usage(self, prompt_tokens: int, *, text: bool = True) -> Usage:
        """What the answer used, as it told, else estimated upwards. `prompt_tokens`: of the prompt, to go by if it did not
        tell. `text`: the answer is text; other answers' sizes tell nothing of what they used."""
        told = self.told.amounts()
        if told is not None and self.believed:
            return told
        output = max(
            self.pieces, -(-max(self.said_characters, self.whole_characters) // CHARACTERS_PER_TOKEN)
        )
        told = told or Usage(0, 0, service_tier=self.told.service_tier)
        return replace(
            told,
            prompt_tokens=told.prompt_tokens or prompt_tokens,
            completion_tokens=max(told.completion_tokens, output if text else 0),
            estimated=True,
        )

    def _count(self, event: dict[str, Any], choices: list[dict[str, Any]]) -> None:
        for choice in choices:
            self._said(choice.get("delta") or choice.get("message") or choice.get("text"))
        kind = str(event.get("type") or "")
        if kind.startswith("content_block"):
            self._said(event.get("content_block") or event.get("delta"))
        elif kind.endswith(".delta") and not kind.endswith("audio.delta"):
            self._said(event.get("delta"))
        elif kind == "response.output_item.done":
            self.whole_characters += characters(event.get("item"))
        elif kind == "message":
            self._said(event.get("content"))
        response = event.get("response") if kind.startswith("response.") else event
        if isinstance(response, dict) and isinstance(response.get("output"), list):
            self.whole_characters = max(self.whole_characters, characters(response["output"]))

    def _said(self, said: Any) -> None:
        if count := characters(said):
            self.said_characters += count
            self.pieces += 1

    def _ends(self, event: dict[str, Any], choices: list[dict[str, Any]], *, whole: bool) -> None:
        if choices:
            self._begun |= indices(choices)
        if ended := [choice for choice in choices if choice.get("finish_reason")]:
            self._ended |= indices(ended)
        kind, delta = event.get("type"), event.get("delta")
        stops = kind == "message_delta" and isinstance(delta, dict) and bool(delta.get("stop_reason"))
        # The chunk that OpenAI's streams tell their usage in, after the last choice.
        tells = kind is None and not event.get("choices") and bool(event.get("usage"))
        self._over = self._over or whole or stops or tells or kind in TERMINAL_TYPES
