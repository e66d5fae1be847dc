"""Which requests can belong to a task at all: one plain question, one short answer. Pure functions; knows no task."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from engines.chat import ChatRequest
from router.digest import carries_tools, in_tool_loop, only_text
from router.tasks.form import overlapping

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""The name of a task, as headers, paths and commands carry it."""
_SYSTEM = ("system", "developer")
_CHANGES_THE_ANSWER = ("logit_bias", "audio", "modalities", "web_search_options", "stop", "prediction")
"""Fields by which an answer is no longer a label that others would be given, too."""
_MOST_LABELS = 500


class NoTask(ValueError):
    """A schema whose answers are no labels. The text says why."""


def unsuited(chat: ChatRequest) -> str:
    """The field for which a request belongs to no task, whatever its client says; empty if none stands against it."""
    fields = chat.fields
    if carries_tools(chat):
        return "tools" if fields.get("tools") else "functions"
    if chat.choices > 1:
        return "n"
    if in_tool_loop(chat.messages) or not only_text(chat.messages):
        return "messages"
    # Turns before the last one are part of what is asked, and no input.
    if [message.get("role") for message in chat.messages if message.get("role") not in _SYSTEM] != ["user"]:
        return "messages"
    form = fields.get("response_format")
    if form is not None and (not isinstance(form, dict) or form.get("type") not in ("text", "json_schema")):
        return "response_format"
    if isinstance(form, dict) and form.get("type") == "json_schema" and not enum_of(chat):
        return "response_format"
    return next(
        (name for name in _CHANGES_THE_ANSWER if fields.get(name) not in (None, {}, [], ["text"])), ""
    )


def schema_of(chat: ChatRequest) -> Mapping[str, Any] | None:
    """The JSON schema that the answer must follow; None if the request sends none."""
    form = chat.fields.get("response_format")
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        return None
    told = form.get("json_schema")
    schema = told.get("schema") if isinstance(told, dict) else None
    return schema if isinstance(schema, dict) else None


def enum_of(chat: ChatRequest) -> tuple[str, ...]:
    """The labels of a request whose answer is one of an enum, by its `response_format`; empty for any other."""
    schema = schema_of(chat)
    try:
        return labels_of(schema) if schema is not None else ()
    except NoTask:
        return ()


def labels_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The labels of a schema: of an object with one property, an enum of texts. Raises NoTask saying what it is instead."""
    name, labels = _enum_of(schema)
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise NoTask(f"the enum {name!r} has values that are no texts: labels are texts")
    if not 2 <= len(labels) <= _MOST_LABELS:
        raise NoTask(f"the enum {name!r} has {len(labels)} values: 2 to {_MOST_LABELS} are right")
    same = _same(tuple(labels))
    if same is not None:
        one, other = (label[:60] for label in same)
        raise NoTask(
            f"the enum {name!r} has {one!r} and {other!r}, the same label but for case, marks and spaces: "
            "keep one of them"
            if one != other or labels.count(one) > 1
            else f"the enum {name!r} has {one!r}, with nothing but marks and spaces in it"
        )
    return tuple(labels)


def _enum_of(schema: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the name, cut to 60 characters, and the values of the only property, an enum. Raises NoTask."""
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict) or not properties:
        raise NoTask("it is no object with properties: an object with one property, an enum, is right")
    enums = [name for name, one in properties.items() if isinstance(one, dict) and "enum" in one]
    if len(enums) > 1:
        raise NoTask(
            f"it has {len(enums)} enums ({', '.join(enums)[:80]}): a task has just one; declare a task for each"
        )
    if not enums:
        raise NoTask("no property of it is an enum: one with the labels is right")
    others = [name for name in properties if name != enums[0]]
    if others:
        raise NoTask(f"its property {others[0][:60]!r} is no enum: a student writes labels and nothing else")
    return enums[0][:60], properties[enums[0]]["enum"]


_same = lru_cache(256)(overlapping)
"""Asked of every request that sends a schema."""
