"""The APIs that a client may speak, by name: which path belongs to which, and which of them an engine of a kind speaks.

A request is asked of engines that speak its own, or that it is translated for (engines.translating).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Api = Literal[
    "chat", "responses", "messages", "completions", "embeddings", "images", "audio", "moderations", "other"
]
"""`other`: what none of these is, such as a re-ranker's."""

AT_ROOT = frozenset({"/rerank", "/score", "/classify", "/pooling", "/tokenize", "/detokenize"})
"""What servers of models have at their root, too, or below a version of their own: `/rerank`, `/v2/rerank`."""

ALL: frozenset[Api] = frozenset(get_args(Api))

_BY_PATH: Mapping[str, Api] = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/responses/input_tokens": "responses",
    "/responses/compact": "responses",
    "/messages": "messages",
    "/messages/count_tokens": "messages",
    "/completions": "completions",
    "/embeddings": "embeddings",
    "/moderations": "moderations",
}
_OPENAI: frozenset[Api] = ALL - {"messages"}
BY_KIND: Mapping[str, frozenset[Api]] = {
    "openai": _OPENAI,
    "azure": _OPENAI,
    "anthropic": frozenset({"messages"}),
    "vllm": frozenset({"chat", "responses", "messages", "completions", "embeddings", "audio", "other"}),
    "vllm-local": frozenset({"chat", "responses", "messages", "completions", "embeddings", "audio", "other"}),
    "simulated": frozenset({"chat"}),
}
"""What an engine of a kind speaks where nobody says otherwise."""


def api_of(path: str) -> Api:
    """The API of a path below the prefix, in the spelling of gateway.paths.canonical and in lower case."""
    known = _BY_PATH.get(path)
    if known is not None:
        return known
    if path.startswith("/images/"):
        return "images"
    return "audio" if path.startswith("/audio/") else "other"
