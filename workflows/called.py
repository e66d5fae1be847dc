"""Reads the inputs of one call of a workflow: by name, and for a chat completion out of its messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engines.chat import message_text
from workflows.declared import from_json
from workflows.definition import Definition, InputSpec
from workflows.errors import WorkflowError
from workflows.transform import Value, size_bytes

_SYSTEM = ("system", "developer")


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Bounds on the inputs of one call; the settings `workflows.*`."""

    max_items: int
    """The items of one list."""
    max_documents_bytes: int
    """The bytes of all inputs together, in UTF-8."""


def read_inputs(
    definition: Definition, chat: Mapping[str, Any] | None, inputs: object, limits: CallLimits
) -> Mapping[str, Value]:
    """The value of every input, by name.

    `chat`: the body of a chat completion that calls the workflow, whose messages give `last_user` and `system`; None for a
    call of `/v1/runs`, where they are given by name. `inputs`: what the client gave by name (any JSON; None for nothing). A
    name given goes before the messages.

    Raises WorkflowError naming the input: 400 `missing_input`, `unused_input`, `invalid_input`, `too_many_items`; 413
    `documents_too_large`.
    """
    place = "inputs" if chat is None else "understudy.inputs"
    given = _given(definition, inputs, place)
    messages = [] if chat is None else _messages(chat)
    values: dict[str, Value] = {}
    for name, spec in definition.inputs.items():
        if name in given:
            values[name] = _value(spec, given[name], f"{place}.{name}")
        else:
            values[name] = _unnamed(definition, spec, messages, place)
    _check_sizes(values, place, limits)
    return values


def _given(definition: Definition, inputs: object, place: str) -> Mapping[str, Any]:
    if inputs is None:
        return {}
    if not isinstance(inputs, dict):
        raise WorkflowError(f"`{place}` must be an object.", param=place, code="invalid_input")
    for name in inputs:
        if name not in definition.inputs:
            known = ", ".join(definition.inputs) or "none"
            raise WorkflowError(
                f"The workflow {definition.name!r} has no input {str(name)[:64]!r}; its inputs: {known}.",
                param=f"{place}.{str(name)[:64]}",
                code="unused_input",
            )
    return {name: value for name, value in inputs.items() if value is not None}


def _messages(chat: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    messages = chat.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise WorkflowError("`messages` must be a list of messages.", param="messages", code="invalid_input")
    return messages


def _value(spec: InputSpec, value: object, param: str) -> Value:
    """Read what a client gave by name, in the form that its kind has."""
    if spec.kind == "json":
        try:
            return _text_only(from_json(value), param)
        except RecursionError:
            raise _invalid(param, "nested less deeply") from None
    if spec.kind == "texts":
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return _text_only(list(value), param)
        raise _invalid(param, "a list of texts")
    if not isinstance(value, str):
        raise _invalid(param, "a text")
    return _text_only(value, param)


def _text_only(value: Value, param: str) -> Value:
    """The value itself, where every text of it can be encoded: JSON can hold half a surrogate pair."""
    try:
        size_bytes(value)
    except UnicodeEncodeError:
        raise WorkflowError(
            f"`{param}` holds half a surrogate pair, which is no text.", param=param, code="invalid_input"
        ) from None
    return value


def _unnamed(definition: Definition, spec: InputSpec, messages: list[Mapping[str, Any]], place: str) -> Value:
    """The value of an input that was not given by name: out of the messages, else its default."""
    found = _of_messages(spec, messages)
    if found is not None:
        return _text_only(found, "messages")
    if spec.default is not None:
        return spec.default
    also = " or a message of the role user" if spec.kind == "last_user" and place != "inputs" else ""
    raise WorkflowError(
        f"The workflow {definition.name!r} needs the input {spec.name!r}: give `{place}.{spec.name}`{also}.",
        param=f"{place}.{spec.name}",
        code="missing_input",
    )


def _of_messages(spec: InputSpec, messages: list[Mapping[str, Any]]) -> str | None:
    if spec.kind == "last_user":
        index = next((i for i in reversed(range(len(messages))) if messages[i].get("role") == "user"), None)
        return None if index is None else _text_of(messages[index], index)
    if spec.kind == "system":
        texts = [_text_of(each, index) for index, each in enumerate(messages) if each.get("role") in _SYSTEM]
        return "\n\n".join(texts) if texts else None
    return None


def _text_of(message: Mapping[str, Any], index: int) -> str:
    """A message's text. Raises WorkflowError if it holds anything else, which would be lost."""
    content = message.get("content")
    if isinstance(content, list):
        for part in content:
            if not isinstance(part, dict) or part.get("type") != "text":
                raise _invalid(f"messages[{index}].content", "text only, as the workflow's input is a text")
    elif not isinstance(content, str):
        raise _invalid(f"messages[{index}].content", "a text")
    return message_text(content)


def _invalid(param: str, wanted: str) -> WorkflowError:
    return WorkflowError(f"`{param}` must be {wanted}.", param=param, code="invalid_input")


def _check_sizes(values: Mapping[str, Value], place: str, limits: CallLimits) -> None:
    total = 0
    for name, value in values.items():
        if isinstance(value, list) and len(value) > limits.max_items:
            raise WorkflowError(
                f"`{place}.{name}` has {len(value)} items; {limits.max_items} are allowed.",
                param=f"{place}.{name}",
                code="too_many_items",
            )
        total += size_bytes(value)
        if total > limits.max_documents_bytes:
            raise WorkflowError(
                f"With `{place}.{name}` the inputs have {total} bytes; {limits.max_documents_bytes} are allowed.",
                param=f"{place}.{name}",
                code="documents_too_large",
                status=413,
            )
