"""Who may read the gateway's figures by tenant and key: programs with an admin token, of any role."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from multidict import MultiMapping

from gateway.endpoints.health import nobody

if TYPE_CHECKING:
    from understudy.memory import Memory

_SCHEME = "bearer "


def reads_people(memory: Memory | None) -> Callable[[MultiMapping[str]], Awaitable[bool]]:
    """What says of a request's headers whether its sender may. Without a store there are no tokens, and nobody may."""
    if memory is None:
        return nobody
    from store.people.secret import TOKEN_PREFIX

    tokens, store = memory.store.admin_tokens, memory.store

    async def reads(headers: MultiMapping[str]) -> bool:
        given = headers.get("Authorization", "")
        token = given[len(_SCHEME) :].strip()
        if given[: len(_SCHEME)].lower() != _SCHEME or not token.startswith(TOKEN_PREFIX):
            return False
        try:
            return await store.reads(tokens.find, token) is not None
        except Exception:
            # A store that fails must not hide the figures that everybody may read.
            return False

    return reads
