"""The demo's keys: the one that it prints, and one with limits, with which a part of its traffic is sent.

They are made where the admin pages show them. A gateway without keys takes any credential, the printed one, too.
"""

from __future__ import annotations

import time
from pathlib import Path

from simulation.demo.settings import KEY, LIMITED_KEY, MODEL, DemoSettings
from simulation.stream import Ask
from store import Store
from store.people.limits import Budget, Limits, Terms

TENANT = "demo"
"""Whose keys they are: together they fill one memory, and read it."""
NAME = "limited to a trial"
"""Of the key with limits."""
_USD, _USD_PER_REQUEST = 5.0, 0.002
"""Never reached: requests under way reserve several times what they cost."""
_LEAST_PER_MINUTE = 600
_DAYS = 7


def create_keys(memory: Path, settings: DemoSettings) -> None:
    """Make the keys in the demo's memory, before the gateway opens it. Blocks for 0.1 s."""
    limits = Limits(
        models=(MODEL,),
        endpoints=("/chat/completions", "/feedback"),
        requests_per_minute=max(_LEAST_PER_MINUTE, settings.requests),
        budgets=(Budget(_USD + _USD_PER_REQUEST * settings.requests, "total"),),
    )
    store = Store.open(memory)
    try:
        store.keys.create(TENANT, "printed by the demo", secret_text=KEY)
        terms = Terms(limits=limits, expires_at_s=time.time() + _DAYS * 86_400)
        store.keys.create(TENANT, NAME, secret_text=LIMITED_KEY, terms=terms)
    finally:
        store.close()


def is_limited(ask: Ask) -> bool:
    """Whether a request is sent with the key that has limits: every fourth is, streamed or not."""
    return ask.number % 8 < 2
