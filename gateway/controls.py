"""Reads how a client steers the gateway, request by request: standard cache directives and `x-understudy-*` headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from multidict import MultiMapping

from engines.chat import ChatRequest
from engines.errors import RequestError
from gateway.cache_control import NOTHING_SAID, cache_control, pragma_no_cache
from router.asked import Controls
from router.tasks.requests import NAME, unsuited

NONE = Controls()
_SESSION = re.compile(r"[!-~](?:[ -~]{0,254}[!-~])?")
_SCOPE = re.compile(r"[!-~](?:[ -~]{0,98}[!-~])?")


def read_controls(headers: MultiMapping[str], fields: Mapping[str, Any]) -> Controls:
    """What the client asks of the gateway. Raises RequestError 400 for a header of ours with a value that means nothing."""
    directives = cache_control(headers)
    no_cache = directives.no_cache or directives.none_of_it_fresh or pragma_no_cache(headers)
    engine = headers.get("x-understudy-engine")
    examples = headers.get("x-understudy-examples")
    preference = headers.get("x-understudy-preference")
    scope = named_scope(headers)
    task = named_task(headers)
    session = named_session(headers)
    keep_out = fields.get("store") is False
    steers = any(said is not None for said in (engine, examples, preference, scope, task, session))
    if directives is NOTHING_SAID and not (no_cache or steers or keep_out):
        return NONE
    max_examples = None
    if examples is not None:
        if not (examples.isascii() and examples.isdigit() and len(examples) < 4):
            raise RequestError(
                f"x-understudy-examples is {examples[:40]!r}; it must be a whole number, 0 for none.",
                code="invalid_control",
                param="x-understudy-examples",
            )
        max_examples = int(examples)
    return Controls(
        no_store=keep_out or directives.no_store,
        no_cache=no_cache,
        engine=engine or None,
        max_examples=max_examples,
        preference=None if preference is None else _dial(preference),
        scope=scope,
        task=task,
        session=session,
    )


def named_scope(headers: Mapping[str, str]) -> str | None:
    """The client's own name for the instructions of its request. Raises RequestError 400 for one that is no name."""
    return _name(headers, "x-understudy-scope", _SCOPE, "1 to 100 printable ASCII characters")


def named_session(headers: Mapping[str, str]) -> str | None:
    """The client's own name for the conversation of its request. Raises RequestError 400 for one that is no name."""
    return _name(headers, "x-understudy-session", _SESSION, "1 to 256 printable ASCII characters")


def named_task(headers: Mapping[str, str]) -> str | None:
    """The client's own name for the task of its request. Raises RequestError 400 for one that is no name."""
    return _name(headers, "x-understudy-task", NAME, "1 to 64 letters, digits, dots, hyphens and underscores")


def refuse_unsuited(controls: Controls, chat: ChatRequest) -> None:
    """Raise RequestError 400 where a client names a task for a request that can belong to none, naming the field."""
    field = unsuited(chat) if controls.task is not None else ""
    if field:
        raise RequestError(
            f"x-understudy-task names a task, but {_WHY[field] if field in _WHY else _WHY_NOT.format(field)}",
            code="unsuited_to_task",
            param=field,
        )


_WHY = {
    "tools": "the request offers tools: its answer is no label.",
    "functions": "the request offers functions: its answer is no label.",
    "n": "the request asks for several choices: a task has one answer.",
    "messages": "its messages are more than one user turn of text behind system messages: what a task asks is one input.",
    "response_format": "its response_format is neither text nor a JSON schema of an object with one property, an enum whose "
    "labels differ by more than case, marks and spaces.",
}
_WHY_NOT = "the request has '{}', by which its answer is no longer one of the task's labels."


def _dial(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    # Written so that NaN, which is none of these, is refused.
    if not (0.0 <= value <= 1.0 and len(text) < 20):
        raise RequestError(
            f"x-understudy-preference is {text[:40]!r}; it must be a number from 0 (cheapest) to 1 (best).",
            code="invalid_control",
            param="x-understudy-preference",
        )
    return value


def _name(headers: Mapping[str, str], header: str, right: re.Pattern[str], it_must_be: str) -> str | None:
    name = headers.get(header)
    if name is not None and not right.fullmatch(name):
        raise RequestError(
            f"{header} is {name[:40]!r}; it must be {it_must_be}.", code="invalid_control", param=header
        )
    return name
