"""The endpoints of examples. Without memory they say what is missing."""

from __future__ import annotations

from gateway.endpoints.examples import Examples
from gateway.endpoints.handler import mounted
from learning.bank.forgetting import Forgetter
from understudy.built import Built


def add_to(built: Built) -> None:
    """Serve `/v1/examples`."""
    memory = built.memory
    forgetter = Forgetter(memory.store) if memory is not None else None
    examples = Examples(
        built.example_store(), forgetter, built.end_users, max_json_bytes=built.max_json_bytes
    )
    built.otherwise = mounted({"examples": examples}, built.otherwise)
