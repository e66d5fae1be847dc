"""Texts that stand for a request: what is embedded, and the instructions under which an example applies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from engines.chat import ChatRequest, message_text
from router.spans import masked

_SYSTEM = ("system", "developer")
_SAME_CHARACTERS = 16_384
"""The characters of instructions whose scope is held in memory."""
_EARLIER_CHARACTERS = 240
"""Characters of the conversation before the last turn that are kept: enough to say what "it" refers to."""


def question(messages: Sequence[Mapping[str, Any]]) -> str:
    """The last user turn; in a conversation, followed by a short digest of the turns before it.

    This text is embedded, and becomes the example's question if the answer is remembered: a follow-up such as "and in
    winter?" means nothing without the turns before it.
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
    """System messages and response format as JSON: an example applies only where these are equal."""
    texts = [message_text(m.get("content")) for m in chat.messages if m.get("role") in _SYSTEM]
    form = chat.fields.get("response_format")
    return json.dumps([texts, form], sort_keys=True, separators=(",", ":"), default=str)


def scope(chat: ChatRequest, *, named: str | None = None, end_user: str = "") -> str:
    """Hash of `instructions`, or of the client's own name for them, and the end user.

    Only examples of the same scope are used.

    The same question under "answer in French" and under "answer in German" has different right answers; and what one
    end user was told is nobody else's business.
    """
    form = chat.fields.get("response_format")
    if named is None and form is None:
        texts = tuple(message_text(m.get("content")) for m in chat.messages if m.get("role") in _SYSTEM)
        if sum(map(len, texts)) <= _SAME_CHARACTERS:
            return of_user(_same(texts), end_user)
    if named is None:
        return scope_of(instructions(chat), end_user)
    told = json.dumps(["named", named, form], sort_keys=True, separators=(",", ":"), default=str)
    return of_user(_hashed(told), end_user)


def scope_of(instructions: str, end_user: str = "") -> str:
    """The scope that belongs to the result of `instructions`, shared by the tenant or of one end user (a digest).

    A date, a time or an id in the texts makes no difference.
    """
    texts, form = json.loads(instructions)
    without = [masked(text) for text in texts]
    if without != texts:
        instructions = json.dumps([without, form], sort_keys=True, separators=(",", ":"))
    return of_user(_hashed(instructions), end_user)


@lru_cache(256)
def _same(texts: tuple[str, ...]) -> str:
    """The scope of these texts and no response format: an application's requests come with the same, and each is asked for
    its scope two or three times."""
    return scope_of(json.dumps([texts, None], separators=(",", ":")))


def _hashed(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def of_user(scope: str, end_user: str) -> str:
    """The shared scope `scope` as one end user's own; itself for nobody in particular."""
    return f"{scope}{OF_USER}{end_user}" if end_user else scope


OF_USER = "/"
"""In a scope: between the hash of the instructions and the end user's digest."""


def shared_scope(scope: str) -> str:
    """The scope of the same instructions that names no end user."""
    return scope.partition(OF_USER)[0]


def user_scope(scope: str) -> str:
    """The digest of the end user whose scope it is; empty for one that a tenant shares."""
    return scope.partition(OF_USER)[2]


def is_follow_up(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Tell if the last user turn has turns before it: then its answer means little without them."""
    turns = [m.get("role") for m in messages if m.get("role") not in _SYSTEM]
    return "user" in turns[1:]


NO_INSTRUCTIONS = "[[],null]"
"""The result of `instructions` for a request without any."""


def asked_under(instructions: str, question: str) -> dict[str, Any]:
    """The fields of a request that asks `question` again, under the result of `instructions`."""
    texts, form = json.loads(instructions)
    messages = [
        *({"role": "system", "content": text} for text in texts),
        {"role": "user", "content": question},
    ]
    return {"messages": messages} | ({} if form is None else {"response_format": form})


def is_plain_text(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Tell if every message is text only: no images, audio or files, and no tool calls."""
    return not in_tool_loop(messages) and only_text(messages)


def only_text(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Tell if no message has images, audio or files in it."""
    for message in messages:
        content = message.get("content")
        if isinstance(content, list) and any(
            not isinstance(p, dict) or p.get("type") != "text" for p in content
        ):
            return False
    return True


def in_tool_loop(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Tell if the conversation holds what a tool was asked or said: an error here is carried through all that follows."""
    return any(
        message.get("role") in ("tool", "function")
        or message.get("tool_calls")
        or message.get("function_call")
        for message in messages
    )


def amid_tools(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Tell if the last that was said, but for the user's own words, is a call of a tool or what one said."""
    before = (m for m in reversed(messages) if m.get("role") not in ("user", *_SYSTEM))
    last = next(before, None)
    return last is not None and in_tool_loop([last])


def scope_with_tools(chat: ChatRequest, scope: str) -> str:
    """The scope of requests with the same instructions as `scope` that offer the same tools: no example is of it."""
    offered = [chat.fields.get("tools"), chat.fields.get("functions")]
    told = json.dumps([shared_scope(scope), offered], sort_keys=True, separators=(",", ":"), default=str)
    return of_user(_hashed(told), user_scope(scope))


def carries_tools(chat: ChatRequest) -> bool:
    """Tell if the request offers tools to the model."""
    return bool(chat.fields.get("tools") or chat.fields.get("functions"))
