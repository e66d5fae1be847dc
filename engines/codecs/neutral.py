"""The neutral request: what a client of any API asks, in the words of a chat completion and a few more.

Its fields are those of a chat completion. What that has no word for keeps the word of the API that has one:

- `thinking` (a field, as in Messages) beside `reasoning_effort`, and `effort` (Messages' `output_config.effort`);
- `top_k`;
- parts of an assistant's message: `thinking` with its `signature` (Messages) or its `item` (Responses), and
  `redacted_thinking`;
- a `file` part whose `file` has a `file_url`, or `text`, or `content` (parts), and a `context` and `citations`;
- `cache_control` on parts and tools; `is_error` of a tool's message, and other parts than text in it.

An assistant's thinking and text are the parts of its content in their order; its `tool_calls` come after them. Each result
of a tool is a message of its own. A field that says what holds anyway may be left out where an API has no word for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from engines.apis import Api
from engines.codecs.thinking import effort_of
from engines.errors import RequestError

WRITTEN: Sequence[Api] = ("chat", "responses", "messages")
"""The APIs between which requests are translated."""


class NotTranslatable(RequestError):
    """A field of the client's request that the engine's API has no word for."""

    def __init__(self, name: str, param: str, client: str, engine: str) -> None:
        where = f"'{param}'" if name == param else f"'{name}' in '{param}'"
        super().__init__(
            f"{where} of a request of the {client} API cannot be said in the {engine} API, which is the one that the engine "
            f"speaks. Leave it out, or have the operator allow it to be dropped: engines.NAME.drops: [{name}].",
            code="not_translatable",
            param=param,
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """What is to be done with what the engine's API cannot say."""

    client: Api
    engine: Api
    drops: frozenset[str] = frozenset()
    """Names of fields, and of types of parts and tools, that the operator has left out, whether the API can say them or
    not: a model may refuse what its API describes."""

    def lose(self, name: str, param: str) -> None:
        """Leave it out where that is allowed. Raises NotTranslatable else."""
        if name not in self.drops and param not in self.drops:
            raise NotTranslatable(name, param, self.client, self.engine)

    @property
    def said(self) -> str:
        """The client's field that holds the conversation."""
        return "input" if self.client == "responses" else "messages"


@dataclass(frozen=True, slots=True)
class Neutral:
    """One request. See the module."""

    fields: dict[str, Any]
    """All but the messages."""
    messages: list[dict[str, Any]]


class Field(NamedTuple):
    """How each API names a field; None where it has no word for it. A dot is between an object and its member."""

    neutral: str
    chat: str | None = None
    responses: str | None = None
    messages: str | None = None
    nothing: tuple[Any, ...] = ()
    """Values that say what holds anyway."""
    harmless: str = ""
    """Why no answer becomes wrong where it is left out."""
    instead: str = ""
    """What says it where an API has no word of its own for it: the writers of that API see to it."""


def _same(name: str, *, messages: bool = False, **more: Any) -> Field:
    return Field(name, name, name, name if messages else None, **more)


_CACHES = "it only helps the engine to find the prompt in its cache"
_TELLS = "it only adds to what an answer tells beside itself"
_LABELS = "it labels the request for those who read the engine's records"

FIELDS: Sequence[Field] = (
    _same("model", messages=True),
    _same("stream", messages=True, nothing=(False,)),
    _same("temperature", messages=True),
    _same("top_p", messages=True, nothing=(1,)),
    Field("top_k", "top_k", None, "top_k"),
    Field("max_completion_tokens", "max_completion_tokens", "max_output_tokens", "max_tokens"),
    Field("stop", "stop", None, "stop_sequences"),
    Field("seed", "seed"),
    Field("frequency_penalty", "frequency_penalty", nothing=(0,)),
    Field("presence_penalty", "presence_penalty", nothing=(0,)),
    Field("logit_bias", "logit_bias"),
    Field("n", "n", nothing=(1,)),
    Field("logprobs", "logprobs", nothing=(False,), instead="`include` in Responses, else refused"),
    _same("top_logprobs", nothing=(0,)),
    Field("reasoning_effort", "reasoning_effort", "reasoning.effort", instead="`thinking` and `effort`"),
    Field("effort", None, None, "output_config.effort", instead="`reasoning_effort`"),
    Field("thinking", None, None, "thinking", instead="`reasoning_effort`"),
    Field("verbosity", "verbosity", "text.verbosity", nothing=("medium",)),
    Field("response_format", "response_format", "text.format", "output_config.format"),
    _same("tools", messages=True),
    _same("tool_choice", messages=True, nothing=("auto",)),
    _same("parallel_tool_calls", nothing=(True,), instead="`tool_choice`"),
    Field("user", "user", "user", "metadata.user_id", harmless=_LABELS),
    _same("safety_identifier", harmless=_LABELS),
    _same("metadata", harmless=_LABELS),
    _same("service_tier", messages=True, nothing=("auto",)),
    _same("moderation"),
    Field("modalities", "modalities", nothing=(["text"],)),
    Field("truncation", None, "truncation", nothing=("disabled",)),
    Field("reasoning_mode", None, "reasoning.mode", nothing=("standard",)),
    Field("speed", None, None, "speed", nothing=("standard",)),
    _same("prompt_cache_key", harmless=_CACHES),
    _same("prompt_cache_retention", harmless=_CACHES),
    _same("prompt_cache_options", harmless=_CACHES),
    Field("cache_control", None, None, "cache_control", harmless=_CACHES),
    Field("prediction", "prediction", harmless="it only makes the same answer faster"),
    Field("store", "store", harmless=_LABELS),
    Field("store_response", None, "store", harmless="what can be asked for later is kept by the gateway"),
    Field("include", None, "include", harmless=_TELLS),
    Field("summary", None, "reasoning.summary", harmless=_TELLS),
    Field("generate_summary", None, "reasoning.generate_summary", harmless=_TELLS),
    Field("diagnostics", None, None, "diagnostics", harmless=_TELLS),
    Field("stream_options", "stream_options", harmless=_TELLS),
    Field("stream_options_response", None, "stream_options", harmless=_TELLS),
    Field("max_tool_calls", None, "max_tool_calls", harmless="it limits hosted tools, which are refused"),
    Field("client_metadata", None, "client_metadata", harmless=_LABELS),
)
"""All fields but the messages. A field of a client that stands nowhere here is refused by its name."""

_NESTED: Mapping[str, frozenset[str]] = {
    "chat": frozenset(),
    "responses": frozenset({"reasoning", "text"}),
    "messages": frozenset({"output_config", "metadata"}),
}
"""Fields whose members are fields of their own above."""
CONVERSATION: Mapping[str, frozenset[str]] = {
    "chat": frozenset({"messages"}),
    "responses": frozenset({"input", "instructions"}),
    "messages": frozenset({"messages", "system"}),
}
"""Fields that each reader reads itself."""
_BY_OWN: Mapping[str, Mapping[str, str]] = {
    api: {name: field.neutral for field in FIELDS if (name := getattr(field, api)) is not None}
    for api in WRITTEN
}
_BY_NEUTRAL: Mapping[str, Field] = {field.neutral: field for field in FIELDS}


def _flat(own: Mapping[str, Any], nested: frozenset[str]) -> Iterator[tuple[str, Any]]:
    for name, value in own.items():
        if name in nested and isinstance(value, dict):
            for member, inner in value.items():
                yield f"{name}.{member}", inner
        else:
            yield name, value


def _is_nothing(value: Any) -> bool:
    return value is None or value is False or value in ("", [], {})


def read_fields(own: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """The fields of a client's body by their neutral names, their values as they stand. Raises NotTranslatable."""
    names, apart = _BY_OWN[limits.client], CONVERSATION[limits.client]
    read: dict[str, Any] = {}
    for name, value in _flat(own, _NESTED[limits.client]):
        if name in names:
            neutral = names[name]
            if value is not None and limits.drops.isdisjoint((name, neutral)):
                read[neutral] = value
        elif name not in apart and not _is_nothing(value):
            limits.lose(name, name)
    return read


def write_fields(fields: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """The body's fields in the engine's API by neutral fields whose values are in its words. Raises NotTranslatable."""
    written: dict[str, Any] = {}
    for neutral, value in fields.items():
        field = _BY_NEUTRAL[neutral]
        name: str | None = getattr(field, limits.engine)
        if neutral in limits.drops:
            continue
        if name is None:
            if not field.harmless and not _is_nothing(value) and value not in field.nothing:
                lose_field(neutral, limits)
            continue
        holder, dot, member = name.rpartition(".")
        (written.setdefault(holder, {}) if dot else written)[member] = value
    return written


def lose_members(value: Mapping[str, Any], known: frozenset[str], param: str, limits: Limits) -> None:
    """Leave out the members of a message, part or tool that are not known. Raises NotTranslatable unless that is allowed."""
    if value.keys() <= known:
        return
    for name in value.keys() - known:
        if not _is_nothing(value[name]):
            limits.lose(name, param)


def lose_field(neutral: str, limits: Limits) -> None:
    """Leave a field out, by the name that the client gave it. Raises NotTranslatable unless that is allowed."""
    own = getattr(_BY_NEUTRAL[neutral], limits.client) or neutral
    if neutral not in limits.drops:
        limits.lose(own, own)


def lose_file_id(file: Mapping[str, Any], limits: Limits) -> bool:
    """Leave out a file that is named by its id: only the account that has it can read it. Returns whether it may stay."""
    if limits.client != limits.engine:
        limits.lose("file_id", limits.said)
        return False
    return bool(file.get("file_id"))


def spread_file(file: Mapping[str, Any], limits: Limits) -> list[dict[str, Any]] | None:
    """A document of text, or of parts, as parts with its title and context before them; None for any other file."""
    if file.get("citations"):
        limits.lose("citations", limits.said)
    if "text" not in file and "content" not in file:
        return None
    heading = "\n".join(each for each in (file.get("filename"), file.get("context")) if each)
    return [*as_parts(heading), *as_parts(file.get("text") or file.get("content"))]


def as_parts(content: Any) -> list[dict[str, Any]]:
    """A content as parts: none where it is empty."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content or ())


def is_lead(message: Mapping[str, Any]) -> bool:
    """Tells whether a message instructs the model in the operator's name."""
    return message["role"] in ("system", "developer")


def marked(content: Any) -> list[dict[str, Any]]:
    """The parts of later instructions as the user's, with their texts marked: many models take none but at the head."""
    return [
        part | {"text": f"<system>\n{part['text']}\n</system>"} if part["type"] == "text" else part
        for part in as_parts(content)
    ]


_MOST_USER = 64
"""Characters of the longest `user` that OpenAI takes. Claude Code's has more."""


def openai_fields(neutral: Neutral) -> dict[str, Any]:
    """The fields for an API of OpenAI's: an effort instead of thinking, and nothing about tools where there are none."""
    fields = dict(neutral.fields)
    effort = effort_of(fields)
    fields.pop("thinking", None)
    fields.pop("effort", None)
    if effort is not None:
        fields["reasoning_effort"] = effort
    if len(str(fields.get("user"))) > _MOST_USER:
        del fields["user"]
    if "tools" not in fields:
        fields.pop("parallel_tool_calls", None)
        if fields.get("tool_choice") in ("auto", "none"):
            del fields["tool_choice"]
    return fields


FAILED: dict[str, Any] = {"type": "text", "text": "Error:"}
"""Stands before what a failed tool said where an API has no word for its failure."""
_THOUGHTS: Mapping[str, str] = {
    "chat": "reasoning_content",
    "responses": "reasoning",
    "messages": "thinking",
}


def lose_thought(part: Mapping[str, Any], limits: Limits) -> None:
    """Leave out thinking that only the engine that thought it can read. Raises NotTranslatable unless that is allowed."""
    if keeps_thoughts(limits):
        limits.lose(_THOUGHTS[limits.client] if part["type"] == "thinking" else part["type"], limits.said)


def keeps_thoughts(limits: Limits) -> bool:
    """Tells whether the operator leaves earlier thinking in: some engines refuse what others thought."""
    return "thinking" not in limits.drops
