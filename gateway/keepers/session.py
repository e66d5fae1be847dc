"""Which conversation a request belongs to: as its client names it, else as it begins."""

from __future__ import annotations

from engines.chat import message_text
from router.asked import Asked
from router.turns.naming import named_by
from store.decisions import session_ids

_BEGINNING_CHARACTERS = 4000


def session_name(asked: Asked) -> str:
    """How its client names it; empty where it does not."""
    return named_by(asked.controls.session, asked.chat.own_fields)


def session_of(secret: bytes, asked: Asked) -> str:
    """The digest of a request's conversation; empty where nothing tells it from others.

    One that is not named is told by who has it and by its first user message: every later turn has it, too.
    """
    if name := session_name(asked):
        return session_ids.named(secret, name)
    first = next((m for m in asked.chat.messages if m.get("role") == "user"), None)
    text = message_text(first.get("content"))[:_BEGINNING_CHARACTERS] if first is not None else ""
    if not text:
        return ""
    return session_ids.beginning(secret, asked.arrival.tenant, asked.contributor, text)
