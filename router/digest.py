"""From messages to the texts that stand for them: what is embedded, what an example is about, and where it may be used."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from engines.chat import ChatRequest, message_text

_SYSTEM = ("system", "developer")
_EARLIER_CHARACTERS = 240
"""How much of the conversation before the last turn is kept: enough to say what "it" refers to."""


def question(messages: Sequence[Mapping[str, Any]]) -> str:
    """The last user turn; in a conversation, preceded by a short digest of the turns before it.

    The same text is embedded and, should the answer be remembered, becomes the example's question: a follow-up such as
    "and in winter?" means nothing without what it follows.
    """
    turns = [m for m in messages if m.get("role") not in _SYSTEM]
    last = next((i for i in range(len(turns) - 1, -1, -1) if turns[i].get("role") == "user"), None)
    if last is None:
        return ""
    text = message_text(turns[last].get("content")).strip()
    earlier = " / ".join(filter(None, (_one_line(m) for m in turns[:last])))
    if not earlier or not text:
        return text
    return f"{text}\n(Earlier: {earlier[-_EARLIER_CHARACTERS:]})"


def _one_line(message: Mapping[str, Any]) -> str:
    return " ".join(message_text(message.get("content")).split())[:_EARLIER_CHARACTERS]


def instructions(chat: ChatRequest) -> str:
    """What must be equal for an example to apply, as JSON: the texts of the system messages, and the form of the answer."""
    texts = [message_text(m.get("content")) for m in chat.messages if m.get("role") in _SYSTEM]
    form = chat.fields.get("response_format")
    return json.dumps([texts, form], sort_keys=True, separators=(",", ":"), default=str)


def scope(chat: ChatRequest) -> str:
    """A fingerprint of `instructions`.

    The same question under "answer in French" and under "answer in German" has different right answers.
    """
    return scope_of(instructions(chat))


def scope_of(instructions: str) -> str:
    """The fingerprint of what `instructions` gave."""
    return hashlib.blake2b(instructions.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


NO_INSTRUCTIONS = "[[],null]"
"""What `instructions` gives for a request without any."""


def asked_under(instructions: str, question: str) -> dict[str, Any]:
    """The fields of a request that asks an example's question again, under what `instructions` gave for it."""
    texts, form = json.loads(instructions)
    messages = [
        *({"role": "system", "content": text} for text in texts),
        {"role": "user", "content": question},
    ]
    return {"messages": messages} | ({} if form is None else {"response_format": form})


def is_plain_text(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether every message is words only: no images, audio, files, and no calling of tools."""
    for message in messages:
        if (
            message.get("role") in ("tool", "function")
            or message.get("tool_calls")
            or message.get("function_call")
        ):
            return False
        content = message.get("content")
        if isinstance(content, list) and any(
            not isinstance(p, dict) or p.get("type") != "text" for p in content
        ):
            return False
    return True


def carries_tools(chat: ChatRequest) -> bool:
    """Whether the request offers tools to the model."""
    return bool(chat.fields.get("tools") or chat.fields.get("functions"))
