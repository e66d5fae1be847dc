"""What a guardrail is asked and may say: docs/reference/guardrails.md. Pure functions.

`input_type`, with `request` and `response`, is what LiteLLM's generic guardrail API calls it; `request` and `response` hold
JSON of the API that was asked, as in Portkey's webhook.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson
from multidict import CIMultiDict

from engines.answers.answer import Assembled
from engines.codecs.table import CODECS
from engines.errors import RequestError
from engines.large_json import dumped
from router.asked import Arrival

STAGE = "guardrails"
"""The stage's name in metrics, logs, rows and documentation."""
BLOCKED = "content_policy_violation"
UNAVAILABLE = "guardrail_unavailable"
_SAYS: Mapping[str, tuple[str, ...]] = {
    "chat": ("messages",),
    "responses": ("input", "instructions"),
    "messages": ("messages", "system"),
    "completions": ("prompt",),
    "embeddings": ("input",),
}
"""Members of each API's body that hold what is said: these may be replaced."""
_REASON_CHARACTERS = 300
_PATH_CHARACTERS = 200

Action = Literal["allow", "block", "replace"]


class NoVerdict(Exception):
    """What it said is none of the actions, or cannot be done."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one guardrail said."""

    action: Action
    reason: str = ""
    said: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The whole answer: what replaces is read from it by who knows the API."""


class Withheld(RequestError):
    """A guardrail blocked a request or an answer (400), or gave no verdict and nothing passes without it (503)."""

    def __init__(self, guardrail: str, message: str, *, status: int = 400, code: str = BLOCKED) -> None:
        super().__init__(message, status=status, code=code, retry_after_s=1.0 if status == 503 else None)
        self.guardrail = guardrail


def asked_before(arrival: Arrival, request: Mapping[str, Any] | None, *, like: bytes) -> bytes:
    """The question about a request. `request`: its body's fields; None where it is a form, or an encoding that is not read
    here. `like`: a body about as long."""
    return dumped({**_about(arrival), "input_type": "request", "request": request}, like=like)


def asked_after(
    arrival: Arrival, request: Mapping[str, Any] | None, assembled: Assembled, *, like: bytes
) -> bytes:
    """The question about an answer, which is said as its API says it in one piece."""
    question = {
        **_about(arrival),
        "input_type": "response",
        "request": request,
        "response": _own(assembled),
        "content": assembled.text(),
        "complete": assembled.whole,
    }
    return dumped(question, like=like)


def _about(arrival: Arrival) -> dict[str, Any]:
    return {
        "id": arrival.id,
        "api": arrival.api,
        "path": arrival.path[:_PATH_CHARACTERS],
        "tenant": arrival.tenant_name or arrival.tenant,
        "key": arrival.key_name or arrival.key_id,
    }


def read_verdict(body: bytes) -> Verdict:
    """What it said. Raises NoVerdict."""
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise NoVerdict from None
    action = said.get("action") if isinstance(said, dict) else None
    if action not in ("allow", "block", "replace"):
        raise NoVerdict
    reason = said.get("reason")
    return Verdict(action, _readable(reason) if isinstance(reason, str) else "", said)


def replaced_request(api: str, fields: dict[str, Any] | None, said: Mapping[str, Any]) -> dict[str, Any]:
    """The body's fields with what the guardrail puts in their place. Raises NoVerdict where they are not known, where it
    names none of this API's, or what is no request any more."""
    if fields is None:
        raise NoVerdict
    changes = {name: said[name] for name in _SAYS.get(api, ()) if name in said}
    if not changes or not all(isinstance(value, str | list) for value in changes.values()):
        raise NoVerdict
    changed = {**fields, **changes}
    if _is_request(api, fields) and not _is_request(api, changed):
        raise NoVerdict
    return changed


def _is_request(api: str, fields: dict[str, Any]) -> bool:
    if (codec := CODECS.get(api)) is None:
        return True
    try:
        codec.read(dumped(fields, like=b""), fields)
    except RequestError:
        return False
    return True


def replaced_answer(api: str, assembled: Assembled | None, said: Mapping[str, Any]) -> Assembled:
    """The answer with the guardrail's `content` as all that it says: no tool calls, no reasoning. Raises NoVerdict."""
    text = said.get("content")
    if assembled is None or not isinstance(text, str):
        raise NoVerdict
    own = _ANSWERS[api](_own(assembled), text)
    return Assembled(
        own if api == "chat" else assembled.completion, whole=True, own=own, heard=assembled.heard
    )


def _own(assembled: Assembled) -> dict[str, Any]:
    return assembled.completion if assembled.own is None else assembled.own


def _chat(own: dict[str, Any], text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    end = {"message": message, "logprobs": None, "finish_reason": "stop"}
    return own | {"choices": [{"index": index} | end for index in range(len(own["choices"]))]}


def _completion(own: dict[str, Any], text: str) -> dict[str, Any]:
    said = {"text": text, "logprobs": None, "finish_reason": "stop"}
    return own | {"choices": [said | {"index": index} for index in range(len(own["choices"]))]}


def _message(own: dict[str, Any], text: str) -> dict[str, Any]:
    said = {"content": [{"type": "text", "text": text}]}
    return own | said | {"stop_reason": "end_turn", "stop_sequence": None}


def _response(own: dict[str, Any], text: str) -> dict[str, Any]:
    said = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    message = {"type": "message", "role": "assistant", "status": "completed", "content": [said]}
    changed = own | {
        # By the old one the upstream would give out what was replaced.
        "id": f"resp_{secrets.token_hex(24)}",
        "output": [{"id": f"msg_{secrets.token_hex(24)}"} | message],
        "status": "completed",
        "incomplete_details": None,
    }
    return changed | {"output_text": text} if "output_text" in own else changed


_ANSWERS = {"chat": _chat, "responses": _response, "messages": _message, "completions": _completion}


def told(headers: CIMultiDict[str], arrival: Arrival) -> None:
    """Say in an answer's head which guardrail replaced what was asked."""
    if arrival.guarded is not None and arrival.guarded.by:
        headers["x-understudy-guardrail"] = arrival.guarded.by


def _readable(text: str) -> str:
    return "".join(c for c in text[:_REASON_CHARACTERS] if c.isprintable())
