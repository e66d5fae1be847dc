"""Turns a request with its right answer, given by a person or a file, into an example, with the text that requests get.

All given pairs are admitted or refused here, for the API and for imports. Embeds nothing and stores nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from engines.chat import ChatRequest, estimated_tokens, message_text
from router.digest import carries_tools, instructions, is_follow_up, is_plain_text, question, scope
from store.admission import Admission, Contributor, Origin, Pair
from store.people.secret import derive
from store.records import NewExample

_ID_CHARACTERS = 32


class NotAdmitted(Exception):
    """The pair may not become an example; `reason` is the code of store.admission, `detail` the kind of content found."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(
            _WHY.get(reason, "a rule of this gateway refuses it") + (f" ({detail})" if detail else "")
        )
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Digested:
    """The parts of an example that come from the request and its answer."""

    scope: str
    question: str
    answer: str
    embedded_text: str
    prompt_tokens: int
    """Estimated."""
    completion_tokens: int
    """Estimated."""
    served_from_s: float = 0.0
    """Unix seconds before which the example is held back."""
    instructions: str = ""
    """See NewExample.instructions."""


def digested(
    chat: ChatRequest,
    answer: str,
    admission: Admission,
    origin: Origin,
    *,
    finish_reason: str = "stop",
    contributor: Contributor | None = None,
    named_scope: str | None = None,
    end_user: str = "",
) -> Digested:
    """Checks a given pair and returns what is kept of it, possibly redacted. Raises NotAdmitted. About 1 ms of CPU.

    `end_user`: the digest of the one whose example it is; empty: the tenant's users share it.
    """
    pair = replace(
        whole_pair(chat, answer),
        finish_reason=finish_reason,
        follow_up=is_follow_up(chat.messages),
        origin=origin,
        contributor=contributor,
    )
    verdict = admission.judge(pair)
    if verdict.reason is not None:
        raise NotAdmitted(verdict.reason, verdict.detail)
    asked_under = instructions(chat)
    return Digested(
        scope=scope(chat, named=named_scope, end_user=end_user),
        question=verdict.question,
        answer=verdict.answer,
        embedded_text=verdict.embedded_text,
        prompt_tokens=sum(estimated_tokens(message_text(m.get("content"))) + 4 for m in chat.messages),
        completion_tokens=estimated_tokens(verdict.answer),
        served_from_s=verdict.held_until_s or 0.0,
        instructions=asked_under if admission.may_keep_instructions(asked_under) else "",
    )


def whole_pair(chat: ChatRequest, answer: str) -> Pair:
    """A request and an answer to it that no client got: one choice, complete, by no engine that must be named."""
    return Pair(
        offers_tools=carries_tools(chat),
        plain_text=is_plain_text(chat.messages),
        status=200,
        complete=True,
        opted_out=False,
        from_reference=False,
        question=question(chat.messages),
        answer=answer,
        finish_reason="stop",
        choices=1,
        calls_tools=False,
    )


def demonstration(
    digest: Digested,
    tenant: str,
    request_id: str,
    contributor: str,
    *,
    embedding_version: str,
    pinned: bool = False,
) -> NewExample:
    """The row of a demonstration; it gets its embedding when it is stored."""
    return NewExample(
        tenant=tenant,
        scope=digest.scope,
        instructions=digest.instructions,
        question=digest.question,
        answer=digest.answer,
        embedded_text=digest.embedded_text,
        vector=None,
        embedding_version=embedding_version,
        source_engine="demonstration",
        request_id=request_id,
        prompt_tokens=digest.prompt_tokens,
        completion_tokens=digest.completion_tokens,
        kind="demonstration",
        contributor=contributor,
        pinned=pinned,
        served_from_s=digest.served_from_s,
    )


def as_chat(fields: Mapping[str, Any]) -> ChatRequest:
    """A request that is never sent: only its fields count."""
    model = fields.get("model")
    return ChatRequest(
        b"",
        fields,
        model if isinstance(model, str) else "",
        fields["messages"],
        stream=False,
        include_usage=False,
    )


def content_id(
    secret: bytes, chat: ChatRequest, answer: str, end_user: str = "", scope: str | None = None
) -> str:
    """An opaque id of a request and its answer, the same for the same content of the same end user.

    `scope`: what the request is said to belong to, where that is not what its own messages say.
    """
    turns = [[str(m.get("role")), message_text(m.get("content"))] for m in chat.messages]
    whole = [turns, chat.fields.get("response_format"), answer, *([end_user] if end_user else [])]
    content = orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)
    id = derive(secret, "content of an example", content.decode())[:_ID_CHARACTERS]
    return id if scope is None else derive(secret, "example of a scope", f"{scope}\n{id}")[:_ID_CHARACTERS]


_WHY = {
    "empty": "there is no user turn with text in it, or the answer is empty",
    "too_short": "the question or the answer is too short to teach anything",
    "too_long": "the question or the answer is longer than 8000 characters",
    "tool_calls": "it carries tools, and an example must be words only",
    "not_plain_text": "it holds something other than text, such as an image or a tool's output",
    "not_text": "it holds characters that are no text",
    "follow_up": "the question has turns before it, on which its answer depends (memory.examples.follow_ups)",
    "cut_short": "the answer did not end by itself (finish reason other than 'stop')",
    "secrets": "it holds what looks like a credential",
    "private_data": "it holds what looks like personal data",
    "instructions": "it reads like instructions to a model rather than an example",
    "hollow_answer": "without the personal data in it little of the answer is left",
    "contributor_cap": "this contributor has as many examples here as one may have",
    "contributor_rate": "this contributor has given many examples within the hour",
}
