"""`/v1/completions`: OpenAI's first API, which goes on with a prompt, and many servers still have.

A prompt is no conversation: it is said as a message of a role of its own, so that nothing takes it for a question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from engines.answers.answer import Assembled, Body
from engines.answers.beginning import Begun, wrong_with
from engines.apis import Api
from engines.as_events import pieces
from engines.chat import ChatRequest
from engines.chat_json import wrong_type
from engines.error_body import error_body
from engines.large_json import dumped
from engines.sse import DONE, Tail, encode, events, tail_of

_AS_IN_CHAT = ("model", "stream", "temperature", "top_p", "max_tokens", "seed", "stop", "user")
"""Fields that mean the same in both APIs."""
_ROLE = "prompt"
_KNOWN_CHOICE = frozenset({"index", "text", "logprobs", "finish_reason", "stop_reason"})


class Completions:
    """See engines.codecs.codec.Codec."""

    __slots__ = ()
    api: Api = "completions"
    path = "/completions"

    def read(self, body: bytes, fields: dict[str, Any]) -> ChatRequest:
        """See Codec."""
        model, stream = fields.get("model", ""), fields.get("stream")
        if not isinstance(model, str):
            raise wrong_type("model", "a string", model)
        if stream is not None and not isinstance(stream, bool):
            raise wrong_type("stream", "true or false", stream)
        options = fields.get("stream_options")
        if options is not None and not isinstance(options, dict):
            raise wrong_type("stream_options", "an object", options)
        prompts = _prompts(fields.get("prompt"))
        messages = [{"role": _ROLE, "content": text} for text in prompts]
        return ChatRequest(
            body,
            _as_chat(fields, messages),
            model,
            messages,
            stream=bool(stream),
            include_usage=bool(options and options.get("include_usage")),
            api="completions",
            raw=fields,
        )

    def changed(
        self,
        chat: ChatRequest,
        *,
        model: str | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
    ) -> ChatRequest:
        """See Codec. A prompt takes no examples."""
        if model is None or model == chat.model:
            return chat
        fields = {**chat.own_fields, "model": model}
        return self.read(dumped(fields, like=chat.body), fields)

    def again(
        self,
        chat: ChatRequest,
        messages: Sequence[Mapping[str, Any]],
        *,
        without: frozenset[str],
        max_tokens: int,
    ) -> ChatRequest:
        """See Codec."""
        kept = {name: value for name, value in chat.own_fields.items() if name not in without}
        kept |= {"stream": False, "max_tokens": max_tokens}
        return self.read(dumped(kept, like=chat.body), kept)

    def tail(self, headers: Mapping[str, str], choices: int = 1) -> Tail | None:
        """See Codec."""
        return tail_of(headers, choices)

    def begun(self, piece: bytes, *, cut: bool = False) -> Begun:
        """See Codec."""
        for data in events(piece):
            if data == b"[DONE]":
                continue
            try:
                event = orjson.loads(data)
            except orjson.JSONDecodeError:
                if cut:
                    continue
                return Begun.DATA
            if isinstance(event, dict) and event.get("error"):
                return Begun.FAILED
            if not isinstance(event, dict) or _says_something(event):
                return Begun.DATA
        return Begun.NOTHING

    def wrong_with(self, body: bytes, headers: Mapping[str, str]) -> str | None:
        """See Codec."""
        return wrong_with(body, headers)

    def assembled(self, body: Body) -> Assembled | None:
        """See Codec."""
        plain = body.readable()
        if plain is None:
            return None
        return _from_events(plain) if body.streamed else _from_object(plain)

    def stored(self, assembled: Assembled) -> bytes:
        """See Codec."""
        return orjson.dumps(assembled.own)

    def refusal(self, chat: ChatRequest, assembled: Assembled) -> str | None:
        """See Codec."""
        return None

    def replayed(self, stored: bytes, chat: ChatRequest) -> bytes:
        """See Codec."""
        return stored

    def events(self, stored: bytes, chat: ChatRequest) -> bytes:
        """See Codec."""
        chunks = _chunks(orjson.loads(stored), include_usage=chat.include_usage)
        return b"".join([*(encode(orjson.dumps(chunk)) for chunk in chunks), DONE])

    def error(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
        """See Codec."""
        return error_body(status, message, code=code, param=param)


def _prompts(prompt: Any) -> list[str]:
    """Each prompt's text; of one that comes as tokens none. Raises RequestError for what is no prompt."""
    if isinstance(prompt, str) or prompt is None:
        return [prompt or ""]
    if not isinstance(prompt, list) or not prompt:
        raise wrong_type("prompt", "a string, or a list of strings or of tokens", prompt)
    if all(isinstance(one, int) for one in prompt):
        return [""]
    for i, one in enumerate(prompt):
        if not isinstance(one, str | list):
            raise wrong_type(f"prompt[{i}]", "a string or a list of tokens", one)
    return [one if isinstance(one, str) else "" for one in prompt]


def _as_chat(fields: Mapping[str, Any], messages: list[dict[str, str]]) -> dict[str, Any]:
    said: dict[str, Any] = {name: fields[name] for name in _AS_IN_CHAT if fields.get(name) is not None}
    each = fields.get("n")
    choices = len(messages) * (each if isinstance(each, int) and each > 0 else 1)
    if choices > 1:
        said["n"] = choices
    return said | {"messages": messages}


def _says_something(event: dict[str, Any]) -> bool:
    choices = event.get("choices")
    if not isinstance(choices, list):
        return True
    return bool(event.get("usage")) or any(
        not isinstance(choice, dict) or choice.get("text") or choice.get("finish_reason")
        for choice in choices
    )


def _from_object(body: bytes) -> Assembled | None:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(answer, dict) or not isinstance(answer.get("choices"), list):
        return None
    return _assembled(answer, whole="error" not in answer)


def _from_events(body: bytes) -> Assembled | None:
    """An answer that came as a stream; None where no chunk of one is in it. What is not understood is not `whole`."""
    answer: dict[str, Any] | None = None
    choices: dict[int, dict[str, Any]] = {}
    understood = True
    for data in events(body):
        if data == b"[DONE]":
            continue
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            chunk = None
        if not isinstance(chunk, dict) or "error" in chunk or not isinstance(chunk.get("choices"), list):
            understood = False
            continue
        if answer is None:
            answer = {k: v for k, v in chunk.items() if k not in ("choices", "usage")}
        if isinstance(chunk.get("usage"), dict):
            answer["usage"] = chunk["usage"]
        for piece in chunk["choices"]:
            understood = _merge(choices, piece) and understood
    if answer is None:
        return None
    answer["choices"] = [choices[index] for index in sorted(choices)]
    finished = bool(choices) and all(choice["finish_reason"] for choice in choices.values())
    return _assembled(answer, whole=finished and understood)


def _merge(choices: dict[int, dict[str, Any]], piece: Any) -> bool:
    """Add one choice of a chunk. Returns whether all of it was understood."""
    if not isinstance(piece, dict) or not isinstance(piece.get("index"), int):
        return False
    index = piece["index"]
    empty = {"text": "", "index": index, "logprobs": None, "finish_reason": None}
    choice = choices.setdefault(index, empty)
    if isinstance(piece.get("text"), str):
        choice["text"] += piece["text"]
    for name in ("finish_reason", "stop_reason"):
        if piece.get(name) is not None:
            choice[name] = piece[name]
    logprobs = piece.get("logprobs")
    if isinstance(logprobs, dict):
        known = choice["logprobs"] = choice["logprobs"] or {}
        for name, value in logprobs.items():
            known[name] = (known.get(name) or []) + value if isinstance(value, list) else value
    return piece.keys() <= _KNOWN_CHOICE


def _assembled(answer: dict[str, Any], *, whole: bool) -> Assembled:
    choices = [
        {
            "index": choice.get("index", 0),
            "message": {"role": "assistant", "content": choice.get("text")},
            "finish_reason": choice.get("finish_reason"),
        }
        for choice in answer["choices"]
        if isinstance(choice, dict)
    ]
    completion = {k: v for k, v in answer.items() if k != "choices"}
    return Assembled(completion | {"object": "chat.completion", "choices": choices}, whole=whole, own=answer)


def _chunks(answer: dict[str, Any], *, include_usage: bool) -> Iterator[dict[str, Any]]:
    head = {k: v for k, v in answer.items() if k not in ("choices", "usage")}
    if include_usage:
        # With include_usage OpenAI puts a null usage on every chunk but the last.
        head["usage"] = None
    for choice in answer["choices"]:
        index, logprobs = choice.get("index", 0), choice.get("logprobs")
        for i, piece in enumerate(pieces(choice.get("text") or "")):
            said = {"text": piece, "index": index, "logprobs": logprobs if i == 0 else None}
            yield head | {"choices": [said | {"finish_reason": None}]}
        end = {"text": "", "index": index, "logprobs": None, "finish_reason": choice.get("finish_reason")}
        yield head | {"choices": [end]}
    if include_usage:
        yield head | {"choices": [], "usage": answer["usage"]}


COMPLETIONS = Completions()
