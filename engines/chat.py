"""The chat request every engine is handed, and the usage that comes back.

The body's bytes are the truth and travel as they came; `fields` is a parsed, read-only view of them. Fields nobody here
knows are carried through both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engines.apis import Api
from engines.large_json import dumped

IN_BODY = "kept_conversation"
"""A `ChatRequest.state` whose conversation was kept here, and is in the body now: every engine can answer it."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One `/v1/chat/completions` body, or another API's, said as one."""

    body: bytes
    """Exactly the bytes to send."""
    fields: Mapping[str, Any]
    """The parsed body. Never mutate it: it is shared between stages."""
    model: str
    messages: Sequence[Mapping[str, Any]]
    stream: bool
    include_usage: bool
    """The client asked for a usage chunk at the end of its stream."""
    api: Api = "chat"
    """Whose wire format the body has (engines.codecs)."""
    raw: Mapping[str, Any] | None = None
    """The parsed body where that is no chat completion; then `fields` says it as a chat completion would."""
    state: str = ""
    """What of the body makes the answer depend on more than the body, or do more than answer: a field's name, such as
    `previous_response_id`. Then nothing of it is remembered, and no remembered answer or example serves it."""

    @property
    def own_fields(self) -> Mapping[str, Any]:
        """The parsed body, whichever API's it is."""
        return self.fields if self.raw is None else self.raw

    @property
    def choices(self) -> int:
        """How many answers are asked for."""
        n = self.fields.get("n")
        return n if isinstance(n, int) and n > 1 else 1

    def changed(self, changes: Mapping[str, Any]) -> ChatRequest:
        """The same chat completion with other values for some fields of its body. Other APIs': engines.codecs."""
        fields = {**self.fields, **changes}
        return ChatRequest(
            dumped(fields, like=self.body),
            fields,
            fields.get("model", self.model),
            fields["messages"],
            stream=self.stream,
            include_usage=self.include_usage,
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that one answer used, as its engine counted them, or else as we estimated: see engines.answers.usage."""

    prompt_tokens: int
    """All of the prompt's, whichever API counts them: those read from a cache and those written to one are among them."""
    completion_tokens: int
    """All of the answer's, reasoning too."""
    cached_tokens: int = 0
    """Of the prompt's, those the engine had in its cache."""
    estimated: bool = False
    cache_write_tokens: int = 0
    """Of the prompt's, those that were written to a cache, where the engine charges for that."""
    images: int = 0
    """Images the answer holds."""
    service_tier: str = ""
    """The one the answer names; empty where it names none."""
    cache_write_1h_tokens: int = 0
    """Of those written to a cache, those that it keeps for an hour."""

    @property
    def tokens(self) -> int:
        """The sum of prompt and answer."""
        return self.prompt_tokens + self.completion_tokens


CHARACTERS_PER_TOKEN = 4
"""A rule of thumb for English text; every number derived from it is flagged `estimated`."""


def estimated_tokens(text: str) -> int:
    """Tokens in `text`, roughly: never zero for a non-empty text."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def tokens_in_bytes(size_bytes: int) -> int:
    """Estimate the tokens in a body of that size."""
    return -(-size_bytes // CHARACTERS_PER_TOKEN)


def message_text(content: Any) -> str:
    """The text of a message's `content`: a string, or the text parts of a list of parts. Other parts count as nothing."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (p.get("text") for p in content if isinstance(p, dict) and p.get("type") == "text")
        return "\n".join(p for p in parts if isinstance(p, str))
    return ""


def prompt_tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    """Estimate the tokens of a prompt by the text of its messages."""
    return sum(estimated_tokens(message_text(m.get("content"))) + 4 for m in messages)
