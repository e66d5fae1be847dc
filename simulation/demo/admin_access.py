"""The demo's admin pages: an account to sign in with, and their address. The demo continues without them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from simulation.demo.gateway_process import RunningGateway, announced_url
from store import Store

USER = "operator"
_WAIT_S = 30.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class AdminAccess:
    """Where the admin pages are, and the account to sign in with. It is deleted with the demo's temporary folder."""

    url: str
    password: str
    user: str = USER


def create_account(memory: Path) -> str:
    """Create the account in the demo's memory, before the gateway opens it; returns the password. Blocks for 0.5 s."""
    from admin.passwords import hashed, new_password

    password = new_password()
    store = Store.open(memory)
    try:
        store.operators.put(USER, "operator", hashed(password))
    finally:
        store.close()
    return password


async def admin_access(
    gateway: RunningGateway, password: str, *, wait_s: float = _WAIT_S
) -> AdminAccess | None:
    """Access to the admin pages, once their process has logged where they are; None if it cannot, or not within `wait_s`."""
    for _ in range(round(wait_s / _POLL_S)):
        url = announced_url(gateway.log, "admin_listening")
        if url is not None:
            return AdminAccess(url, password)
        if gateway.logged("admin_cannot_listen"):
            return None
        await asyncio.sleep(_POLL_S)
    return None
