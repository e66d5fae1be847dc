"""The demo's admin pages: an account for whoever watches, and where they are. The demo goes on without them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from simulation.demo.stage import Running, announced
from store import Store

USER = "operator"
_WAIT_S = 10.0
_LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Pages:
    """Where to look, and as whom. It all goes with the demo's temporary folder."""

    url: str
    password: str
    user: str = USER


def account(memory: Path) -> str:
    """Make the account in the demo's memory before its gateway opens it; gives its password. Blocks for half a second."""
    from admin.passwords import hashed, new_password

    password = new_password()
    store = Store.open(memory)
    try:
        store.operators.put(USER, "operator", hashed(password))
    finally:
        store.close()
    return password


async def pages(gateway: Running, password: str, *, wait_s: float = _WAIT_S) -> Pages | None:
    """The pages, once their process has said where; None if it did not within `wait_s`."""
    for _ in range(round(wait_s / _LOOK_EVERY_S)):
        url = announced(gateway.log, "admin_listening")
        if url is not None:
            return Pages(url, password)
        await asyncio.sleep(_LOOK_EVERY_S)
    return None
