"""Reads how a client names its conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LONGEST = 1024
_METADATA = ("session_id", "conversation_id", "thread_id", "trace_session_id")
"""Names under `metadata` by which applications, LiteLLM and Langfuse tell sessions."""
_NAMING = frozenset({"metadata", "conversation", "litellm_session_id", "session_id", "prompt_cache_key"})
_WITHIN_USER = "_session_"
"""What comes before the session's id in `metadata.user_id` of Anthropic's own client."""


def named_by(header: str | None, fields: Mapping[str, Any]) -> str:
    """How a request names its conversation: by `x-understudy-session`, else by `metadata`, else by a field of its body.
    Empty where it does not say. At most 1,024 characters.
    """
    if header:
        return header
    if _NAMING.isdisjoint(fields):
        return ""
    metadata = fields.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    conversation = fields.get("conversation")
    user = metadata.get("user_id")
    candidates = (
        *(metadata.get(name) for name in _METADATA),
        user.rpartition(_WITHIN_USER)[2] if isinstance(user, str) and _WITHIN_USER in user else None,
        fields.get("litellm_session_id"),
        fields.get("session_id"),
        conversation.get("id") if isinstance(conversation, dict) else conversation,
        fields.get("prompt_cache_key"),
    )
    for name in candidates:
        if isinstance(name, str) and name.strip():
            return name.strip()[:_LONGEST]
    return ""
