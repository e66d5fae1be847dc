"""Keeps what is content of a request beside its conversation and answer: screened and cut, for people to read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from engines.chat import ChatRequest
from engines.sse import events
from gateway.errors import ENDED_IN_ERROR
from gateway.keepers.clipping import Clip
from gateway.keepers.screening import Screen
from gateway.keepers.session import session_name
from router.finished import Finished, Journey, Outcome
from store.decisions.kept_details import KeptDetails, KeptJson, ToolCalled

CONVERSATION = ("messages", "input", "prompt")
_TOOLS = ("tools", "functions")
_ERROR_CHARACTERS = 2000
_MOST_CALLS = 100


def own_details(finished: Finished, screen: Screen) -> KeptDetails:
    """Of an answer from memory: who asked, in which conversation. The rest is the first one's."""
    said = {"user": _short(finished.asked.user), "session": _short(session_name(finished.asked))}
    shown, replaced = screen.of(said)
    return KeptDetails(user=shown["user"], session=shown["session"], replaced=replaced)


def details_of(
    finished: Finished,
    screen: Screen,
    known: Mapping[str, str],
    *,
    answer: str,
    left_out: int,
    cut: int = 0,
    max_characters: int,
) -> KeptDetails:
    """`known`: texts of the conversation and the answer as they were screened. `answer`: what is kept of it, unscreened.

    `left_out`: how many of the first messages are not kept; `cut`: how many characters of the last one.
    """
    came = finished.came or finished.asked.chat
    body, body_cut, conversation = _body(came, left_out, max_characters)
    body_cut += cut if conversation else 0
    tools, tools_cut, tools_replaced = _tools(came, screen, max_characters)
    back, back_cut, answer_in = _back(finished, answer, max_characters)
    said = {
        "user": _short(finished.asked.user),
        "session": _short(session_name(finished.asked)),
        "error": _error(finished),
        "said": [_words(one.said) for one in finished.trail],
        "came": body,
        "changes": Clip(max_characters).of(_changes(came, finished.engine_got)),
        "back": back,
        "calls": _calls(finished, max_characters),
    }
    shown, replaced = screen.of(said, known)
    shown["came"] = {
        name: tools[name] if name in tools else shown["came"].get(name)
        for name in came.own_fields
        if name in tools or name in shown["came"]
    }
    choices = finished.assembled.choices() if finished.assembled is not None else []
    return KeptDetails(
        user=shown["user"],
        session=shown["session"],
        error=shown["error"],
        said=tuple(shown["said"]) if any(shown["said"]) else (),
        came=KeptJson(shown["came"], body_cut + tools_cut),
        conversation=conversation,
        changes=shown["changes"],
        back=None if back is None else KeptJson(shown["back"], back_cut),
        answer_in=answer_in,
        tools_called=tuple(ToolCalled(**call) for call in shown["calls"]),
        finish_reasons=tuple(str(choice.get("finish_reason") or "")[:40] for choice in choices),
        answer_left_out=_left_out(finished, answer),
        replaced=(*tools_replaced, *replaced),
    )


def details_of_failure(ended: Journey, screen: Screen) -> KeptDetails | None:
    """Of a request whose body was not read here: what its client was told, and what engines said; None where nothing was."""
    said = {"error": ended.told[:_ERROR_CHARACTERS], "said": [_words(one.said) for one in ended.trail]}
    if ended.outcome is Outcome.ANSWERED or not (said["error"] or any(said["said"])):
        return None
    shown, replaced = screen.of(said)
    return KeptDetails(error=shown["error"], said=tuple(shown["said"]), replaced=replaced)


def _body(came: ChatRequest, left_out: int, max_characters: int) -> tuple[dict[str, Any], int, str]:
    """The body, cut; how many characters that left out; and the name of the field that is the kept conversation as it is.

    The latest messages are kept rather than earlier ones, and parameters and tools rather than messages.
    """
    fields = came.own_fields
    clip = Clip(max_characters)
    body: dict[str, Any] = {}
    conversation = ""
    for name, value in fields.items():
        if name not in CONVERSATION and name not in _TOOLS:
            body[str(name)] = clip.of(value)
    clip.left = max(clip.left, max_characters // 2)
    for name in CONVERSATION:
        if name not in fields:
            continue
        if name == "messages" and all(map(_is_plain, came.messages)):
            conversation = name
            clip.left_out += sum(len(m["content"]) for m in came.messages[:left_out])
            body[name] = None
        else:
            body[name] = _latest(fields[name], clip)
    return body, clip.left_out, conversation


def _tools(
    came: ChatRequest, screen: Screen, max_characters: int
) -> tuple[dict[str, Any], int, tuple[str, ...]]:
    """Tools that are offered, cut and screened; how many characters were cut; kinds of what was replaced.

    Most requests of an application offer the same ones.
    """
    offered = {name: came.own_fields[name] for name in _TOOLS if name in came.own_fields}
    if not offered:
        return {}, 0, ()
    try:
        name = hashlib.blake2b(orjson.dumps(offered), digest_size=16).digest()
    except TypeError:
        name = b""
    found = screen.same.get(name)
    if found is None:
        clip = Clip(max_characters)
        shown, replaced = screen.of(clip.of(offered))
        found = shown, clip.left_out, replaced
        if name:
            screen.same[name] = found
    return found


def _latest(value: Any, clip: Clip) -> Any:
    if not isinstance(value, list):
        return clip.of(value)
    kept: list[Any] = []
    for item in reversed(value):
        shown = clip.of(item)
        if clip.left > 0 or not kept:
            kept.append(shown)
    return kept[::-1]


def _is_plain(message: Mapping[str, Any]) -> bool:
    return message.keys() == {"role", "content"} and isinstance(message["content"], str)


def _changes(came: ChatRequest, got: ChatRequest | None) -> dict[str, Any]:
    """Fields of the body that the engine got instead; null: it got none."""
    if got is None or got is came:
        return {}
    before, after = came.own_fields, got.own_fields
    names = dict.fromkeys((*before, *after))
    return {
        str(name): after.get(name)
        for name in names
        if name not in CONVERSATION
        and before.get(name) is not after.get(name)
        and before.get(name) != after.get(name)
    }


def _back(finished: Finished, answer: str, max_characters: int) -> tuple[Any, int, bool]:
    """The answer's body, cut; how many characters that left out; and whether the kept answer was taken out of it."""
    value: Any
    if finished.assembled is not None:
        value = finished.assembled.own or finished.assembled.completion
    else:
        body = finished.body.readable()
        if not body:
            return None, 0, False
        value = _json(body)
    clip = Clip(max_characters)
    shown = clip.of(value)
    try:
        message = shown["choices"][0]["message"]
        if answer and message["content"] == answer:
            message["content"] = None
            return shown, clip.left_out, True
    except (KeyError, IndexError, TypeError):
        pass
    return shown, clip.left_out, False


def _calls(finished: Finished, max_characters: int) -> list[dict[str, Any]]:
    """Calls of tools in all choices, as ToolCalled has them."""
    found: list[dict[str, Any]] = []
    clip = Clip(max_characters)
    for place, choice in enumerate(finished.assembled.choices() if finished.assembled is not None else []):
        message = choice.get("message")
        if not isinstance(message, dict):
            continue
        calls = message.get("tool_calls")
        old = message.get("function_call")
        for call in [*(calls if isinstance(calls, list) else []), *([{"function": old}] if old else [])]:
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict) and len(found) < _MOST_CALLS:
                name, id = str(function.get("name") or ""), str(call.get("id") or "")
                arguments = str(function.get("arguments") or "")
                found.append(
                    {"name": name[:200], "arguments": clip.text(arguments), "id": id[:200], "choice": place}
                )
    return found


def _error(finished: Finished) -> str:
    """Give what its client was told of its failure, or what broke its answer off."""
    if finished.told:
        return finished.told[:_ERROR_CHARACTERS]
    if finished.outcome is Outcome.UPSTREAM_ERROR:
        return _words(finished.body.readable() or b"")
    if finished.error == ENDED_IN_ERROR:
        said = (
            data for data in reversed(list(events(finished.body.readable() or b""))) if b'"error"' in data
        )
        return _words(next(said, b"")) or finished.error
    return finished.error[:_ERROR_CHARACTERS] if finished.outcome is Outcome.FAILED else ""


def _words(body: bytes) -> str:
    """Read what an error body says: its message, else the beginning of it."""
    if body.startswith((b"event:", b"data:")):
        body = next((data for data in events(body) if b'"error"' in data), body)
    value = _json(body)
    error = value.get("error", value.get("message")) if isinstance(value, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    text = message if isinstance(message, str) and message else body.decode("utf-8", "replace")
    return text[:_ERROR_CHARACTERS].replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode("utf-8", "replace")


def _left_out(finished: Finished, answer: str) -> int:
    if finished.assembled is not None:
        return max(0, len(finished.assembled.text()) - len(answer))
    return finished.body.size_bytes if not finished.body.chunks and finished.status < 400 else 0


def _short(text: str) -> str:
    return text[:1024].replace("\0", "\ufffd").encode("utf-8", "replace").decode()
