"""`/v1/completions`: OpenAI's first API, which goes on with a prompt, and many servers still have.

A prompt is no conversation: it is said as a message of a role of its own, so that nothing takes it for a question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import orjson

from engines.answers.choices import Choices
from engines.answers.terminal import choices_of
from engines.as_events import head_and_rest, pieces
from engines.chat import ChatRequest
from engines.chat_json import MODEL, OPTIONS, STREAM, check_types, wrong_type
from engines.codecs.codec import Codec
from engines.codecs.saying_completion import SayingCompletion
from engines.loose_json import member, text
from engines.sse import DONE, encode

_AS_IN_CHAT = ("model", "stream", "temperature", "top_p", "max_tokens", "seed", "stop", "user")
"""Fields that mean the same in both APIs."""
_ROLE = "prompt"


class Completions(Codec):
    """See Codec."""

    __slots__ = ()
    api = "completions"
    path = "/completions"
    merged = partial(Choices, "completions")
    saying = SayingCompletion

    def read(self, body: bytes, fields: dict[str, Any]) -> ChatRequest:
        """See Codec."""
        check_types(fields, (MODEL, STREAM, OPTIONS))
        prompts = _prompts(fields.get("prompt"))
        messages = [{"role": _ROLE, "content": prompt} for prompt in prompts]
        return ChatRequest(
            body,
            _as_chat(fields, messages),
            fields.get("model", ""),
            messages,
            stream=bool(fields.get("stream")),
            include_usage=bool(member(fields.get("stream_options"), "include_usage")),
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
        return super().changed(chat, model=model)

    def with_messages(self, chat: ChatRequest, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """See Codec. A prompt takes none."""
        return dict(chat.own_fields)

    def events(self, stored: bytes, chat: ChatRequest) -> bytes:
        """See Codec."""
        chunks = _chunks(orjson.loads(stored), include_usage=chat.include_usage)
        return b"".join([*(encode(orjson.dumps(chunk)) for chunk in chunks), DONE])


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
    return list(map(text, prompt))


def _as_chat(fields: Mapping[str, Any], messages: list[dict[str, str]]) -> dict[str, Any]:
    said: dict[str, Any] = {name: fields[name] for name in _AS_IN_CHAT if fields.get(name) is not None}
    each = fields.get("n")
    choices = len(messages) * (each if isinstance(each, int) and each > 0 else 1)
    if choices > 1:
        said["n"] = choices
    return said | {"messages": messages}


def _chunks(answer: dict[str, Any], *, include_usage: bool) -> Iterator[dict[str, Any]]:
    head, rest = head_and_rest(answer, include_usage=include_usage)
    choices = choices_of(answer)
    for place, choice in enumerate(choices):
        index, logprobs = choice.get("index", 0), choice.get("logprobs")
        for i, piece in enumerate(pieces(choice.get("text") or "")):
            said = {"text": piece, "index": index, "logprobs": logprobs if i == 0 else None}
            yield head | {"choices": [said | {"finish_reason": None}]}
        last = rest if place == len(choices) - 1 else {}
        yield head | last | {"choices": [choice | {"text": "", "logprobs": None}]}
    if include_usage:
        yield head | {"choices": [], "usage": answer["usage"]}


COMPLETIONS = Completions()
