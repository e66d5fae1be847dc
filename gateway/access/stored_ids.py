"""Finds what a body names that an upstream has stored: files, vector stores, responses, conversations and so on.

A name counts at any depth, since APIs nest them in messages, tools and tools' resources: those of the table, and any other
that ends in `_id` or `_ids`, unless it is known to stand for something within the request. What a model or a client's own
function is given as data (a tool call's input, metadata) is not looked into, and of a JSON schema only the names are met,
whose values are no ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from engines.codecs.response_request import SAID_IN_FULL
from engines.loose_json import member, objects, text


class StoredId(NamedTuple):
    """An id of something stored."""

    field: str
    """The name that it stands under, for the error."""
    family: str
    """The endpoint that such things are reached by: a key that lists it may use them."""
    id: str
    """Empty where what is stored is told otherwise."""
    noted_as: str = ""
    """As what its owner is noted (store.people.owned), where owners of such things are."""


_BY_NAME = {
    **dict.fromkeys(("file_id", "file_ids", "image_file", "training_file", "validation_file"), "/files"),
    **dict.fromkeys(("vector_store_id", "vector_store_ids"), "/vector_stores"),
    **dict.fromkeys(("container", "container_id"), "/containers"),
    **dict.fromkeys(("previous_response_id", "response_id", "comparison_response_id"), "/responses"),
    **dict.fromkeys(("conversation", "conversation_id"), "/conversations"),
    "batch_id": "/batches",
    "previous_message_id": "/messages/stored",
    "user_profile_id": "/user_profiles",
}
"""Whose value is an id, a list of ids, or an object with one."""
_NOTED = {"/responses": "response", "/conversations": "conversation"}
_ONLY_OBJECTS = {"prompt": "/prompts", "voice": "/audio/voices", "audio": "/chat/completions/stored"}
"""Whose value names something stored where it is an object with an id: otherwise it is a text, a name, a format."""
_ANYTHING = {
    "data_sources": "/data_sources",
    "dataSources": "/data_sources",
    "kv_transfer_params": "/kv_transfer",
}
"""Which reach beyond the request whatever they hold: an index of the operator's (Azure), another request's cache (vLLM)."""
_WITHIN = frozenset(
    {
        *(
            "tool_call_id",
            "tool_use_id",
            "call_id",
            "caller_id",
            "tool_id",
            "tab_id",
            "approval_request_id",
            "tool_call_ids",
        ),
        *(
            "connector_id",
            "user_id",
            "session_id",
            "request_id",
            "client_id",
            "trace_id",
            "span_id",
            "correlation_id",
        ),
        *(
            "bos_token_id",
            "eos_token_id",
            "stop_token_ids",
            "pad_token_id",
            "token_id",
            "token_ids",
            "prompt_token_ids",
        ),
        *("allowed_token_ids", "seed_id", "index_id", "lang_id", "language_id"),
    }
)
"""What refers to another part of the same request, to a token, or to what is not stored upstream."""
_NOT_INTERPRETED = frozenset({"metadata", "understudy", "logit_bias"})
_DATA_OF_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_DEEPER = (dict, list)
_LONGEST_KNOWN = 64
"""A longer name is looked at anew each time: a client must not fill the memory."""


def stored_ids(fields: Mapping[str, Any], *, chat: bool = False, items: bool = False) -> Iterator[StoredId]:
    """What a body names, in no order. `chat`: it is a chat completion; `items`: its input has items, as of Responses."""
    if chat and fields.get("store") is not None and fields["store"] is not False:
        yield StoredId("store", "/chat/completions/stored", "")
    model = text(fields.get("model"))
    if model.startswith("ft:"):
        yield StoredId("model", "/fine_tuning", model)
    if items:
        yield from _items(fields.get("input"))
    left: list[Any] = [fields]
    while left:
        one = left.pop()
        if isinstance(one, list):
            left += [each for each in one if isinstance(each, dict | list)]
            continue
        kind = one.get("type")
        # The body itself is no call, whatever it says.
        data = "input" if isinstance(kind, str) and kind in _DATA_OF_CALLS and one is not fields else ""
        for name, value in one.items():
            family = _family(name) if len(name) > _LONGEST_KNOWN else _family_known(name)
            if family is not None:
                yield from _named(name, family, value)
            if type(value) in _DEEPER and name not in _NOT_INTERPRETED and name != data:
                left.append(value)


def _named(name: str, family: str, value: Any) -> Iterator[StoredId]:
    if name in _ANYTHING:
        if value:
            yield StoredId(name, family, "")
    elif name not in _ONLY_OBJECTS or isinstance(value, dict):
        yield from (StoredId(name, family, id, _NOTED.get(family, "")) for id in _ids(value))


def _family(spelled: str) -> str | None:
    if spelled in _ANYTHING:
        return _ANYTHING[spelled]
    # Some servers take any case, or the names of another language.
    name = _HUMP.sub("_", spelled).lower()
    known = _BY_NAME.get(name) or _ONLY_OBJECTS.get(name) or _ANYTHING.get(name)
    if known is not None or not name.endswith(("_id", "_ids")) or name in _WITHIN:
        return known
    # Such as assistant_id and skill_ids: as their endpoints are called.
    return f"/{name.removesuffix('_ids').removesuffix('_id')}s"


_family_known = lru_cache(maxsize=1024)(_family)


def _ids(value: Any) -> Iterator[str]:
    named = value if isinstance(value, list) else [value, member(value, "id")]
    return filter(None, map(text, named))


def _items(given: Any) -> Iterator[StoredId]:
    """References to items of other answers: an id without what it stands for."""
    for item in objects(given):
        id, kind = text(item.get("id")), item.get("type")
        inline = text(kind) in SAID_IN_FULL or (kind is None and "role" in item)
        whole = kind == "reasoning" and item.get("encrypted_content")
        if id and not inline and not whole:
            yield StoredId("input[].id", "/responses", id, "item")
