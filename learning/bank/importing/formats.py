"""Reads one line of a log or data set as a request and its answer. Reads no file and stores nothing.

Known formats: understudy's export; OpenAI's fine-tuning files (chat, and preference pairs); the output of its batches,
joined with their input; LiteLLM's spend log rows and standard logging payloads; any object with `request` and `response`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from engines.chat import message_text
from engines.chat_json import read_chat_request
from engines.errors import RequestError
from store.records import Kind

FORMATS = ("auto", "understudy", "openai", "litellm")


class BadLine(Exception):
    """The line cannot be used; the text says why and holds nothing of its content."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A request and its answer."""

    fields: Mapping[str, Any]
    """The request's body, with checked `messages`."""
    answer: str
    kind: Kind
    source: str
    """The engine or model that answered, as the log names it; "import" if it does not."""
    finish_reason: str = "stop"
    created_at_s: float | None = None
    prompt_tokens: int = 0
    """0 if the log does not say."""
    completion_tokens: int = 0
    """0 if the log does not say."""
    score: float | None = None
    """A person's score of the answer, 0 to 1; None if the log does not say."""
    correction: str = ""
    """The right answer by a person's word; empty if the log does not say."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A row of understudy's own export."""

    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BatchInput:
    """A line of a batch's input: its answer is in another file."""

    custom_id: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BatchOutput:
    """A line of a batch's output: its request is in another file."""

    custom_id: str
    body: Mapping[str, Any]

    def joined(self, request: Mapping[str, Any]) -> Pair:
        """The answer with its request. Raises BadLine."""
        return _pair(request, self.body)


Read = Pair | Exported | BatchInput | BatchOutput


def read_line(line: Mapping[str, Any], format: str = "auto") -> Read:
    """Reads one parsed line. Raises BadLine."""
    try:
        return _reader(line, format)(line)
    except RequestError as error:
        raise BadLine(error.message) from None


def _reader(line: Mapping[str, Any], format: str) -> Callable[[Mapping[str, Any]], Read]:
    if "understudy" in line and format in ("auto", "understudy"):
        return _own
    if format in ("auto", "openai"):
        if "custom_id" in line:
            return _batch
        if "preferred_output" in line:
            return _preference
        if "request" in line and "response" in line:
            return _request_and_response
    if format in ("auto", "litellm") and "response" in line:
        return _litellm
    if format in ("auto", "openai") and "messages" in line:
        return _fine_tuning
    raise BadLine(
        f"not a line of the format '{format}': its keys are {', '.join(sorted(line))[:120] or 'none'}"
    )


def _own(line: Mapping[str, Any]) -> Exported:
    if line["understudy"] != 1:
        raise BadLine(f'written by another version: "understudy" is {line["understudy"]!r:.20}, 1 is right')
    for name in ("scope", "question", "answer", "embedded_text", "request_id"):
        if not isinstance(line.get(name), str) or not line[name]:
            raise BadLine(f"{name!r} must be a text that is not empty")
    return Exported(line)


def _fine_tuning(line: Mapping[str, Any]) -> Pair:
    messages = read_chat_request(b"", {**line, "stream": None}).messages
    if not messages or messages[-1].get("role") != "assistant":
        raise BadLine("the last message is not the assistant's: there is no answer to learn from")
    last = messages[-1]
    if last.get("weight") == 0:
        raise BadLine("its answer has weight 0: it is not meant to be learnt from")
    if last.get("tool_calls") or last.get("function_call"):
        raise BadLine("its answer calls a tool")
    return Pair(
        {**line, "messages": messages[:-1]}, message_text(last.get("content")), "demonstration", "import"
    )


def _preference(line: Mapping[str, Any]) -> Pair:
    request = _object(line.get("input"), "input")
    preferred = line.get("preferred_output")
    if not isinstance(preferred, list) or len(preferred) != 1 or not isinstance(preferred[0], dict):
        raise BadLine("'preferred_output' must hold exactly one message")
    messages = [*(request.get("messages") or ()), preferred[0]]
    return _fine_tuning({**request, "messages": messages})


def _batch(line: Mapping[str, Any]) -> BatchInput | BatchOutput:
    custom_id = _text(line.get("custom_id"))
    if not custom_id:
        raise BadLine("'custom_id' must be a text that is not empty")
    if "body" in line:
        url = line.get("url", "")
        if not str(url).endswith("/chat/completions"):
            raise BadLine(f"a request to {str(url)[:60]!r}, not to chat completions")
        return BatchInput(custom_id, _object(line["body"], "body"))
    response = _object(line.get("response"), "response")
    if line.get("error") or response.get("status_code", 200) != 200:
        raise BadLine(f"the batch's request failed (status {response.get('status_code')!r:.12})")
    return BatchOutput(custom_id, _object(response.get("body"), "response.body"))


def _request_and_response(line: Mapping[str, Any]) -> Pair:
    """May hold what a person said of the answer, as `POST /v1/feedback` takes it: `score` and `correction`."""
    pair = _pair(_object(line["request"], "request"), _object(line["response"], "response"))
    score, correction = line.get("score"), line.get("correction")
    if score is not None and (
        isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1
    ):
        raise BadLine(f"'score' is {score!r:.20}: a number from 0 to 1 is right")
    if correction is not None and not isinstance(correction, str):
        raise BadLine("'correction' must be a text")
    return replace(pair, score=score, correction=correction or "")


def _litellm(line: Mapping[str, Any]) -> Pair:
    """A row of LiteLLM_SpendLogs, or a StandardLoggingPayload.

    Spend log rows keep the prompt in `proxy_server_request`; their `messages` is `{}` for chat completions. JSON columns
    are objects or text, depending on the exporter.
    """
    status = line.get("status")
    if status not in (None, "", "success"):
        raise BadLine(f"the request did not succeed (status {status!r:.20})")
    call_type = _text(line.get("call_type"))
    if call_type not in ("", "completion", "acompletion"):
        raise BadLine(f"call_type is {call_type[:40]!r}: only completions can become examples")
    request = _json(line.get("proxy_server_request"))
    request = dict(request) if isinstance(request, dict) else {}
    if isinstance(request.get("body"), dict):
        request = request["body"]
    messages = _json(line.get("messages"))
    if isinstance(messages, list) and messages:
        parameters = line.get("model_parameters")
        request = {**(parameters if isinstance(parameters, dict) else {}), **request, "messages": messages}
    if not request.get("messages"):
        raise BadLine("no prompt is in it: LiteLLM keeps them only with store_prompts_in_spend_logs")
    response = _json(line["response"])
    if isinstance(response, str) and response:
        response = {"choices": [{"message": {"content": response}, "finish_reason": "stop"}]}
    if not isinstance(response, dict) or not response:
        raise BadLine("no answer is in it: LiteLLM keeps them only with store_prompts_in_spend_logs")
    tokens = {name: line[name] for name in ("prompt_tokens", "completion_tokens") if name in line}
    end_user = _text(line.get("end_user"))
    return _pair(
        {**({"user": end_user} if end_user else {}), **request},
        {"usage": tokens, "model": line.get("model"), **response},
        created_at_s=_time_s(line.get("startTime")),
    )


def _pair(
    request: Mapping[str, Any], response: Mapping[str, Any], *, created_at_s: float | None = None
) -> Pair:
    try:
        chat = read_chat_request(b"", dict(request))
    except RequestError as error:
        raise BadLine(error.message) from None
    choices = response.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise BadLine("the response does not have exactly one choice")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise BadLine("the response's choice has no message")
    if message.get("tool_calls") or message.get("function_call"):
        raise BadLine("its answer calls a tool")
    usage = response.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    created = response.get("created")
    return Pair(
        chat.fields,
        message_text(message.get("content")),
        "observed",
        _text(response.get("model")) or chat.model or "import",
        finish_reason=_text(choices[0].get("finish_reason")) or "stop",
        created_at_s=created_at_s if created_at_s is not None else _time_s(created),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
    )


def _object(value: Any, name: str) -> dict[str, Any]:
    value = _json(value)
    if not isinstance(value, dict):
        raise BadLine(f"{name!r} must be an object")
    return value


def _json(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "[", '"'):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else 0


def _time_s(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp()
        except ValueError:
            return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e11:
        return float(value)
    return None
