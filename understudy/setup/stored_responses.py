"""What was answered and can be asked for again: responses by id, and what a request was billed."""

from __future__ import annotations

from gateway.endpoints.stored_responses import StoredResponses, mounted
from gateway.endpoints.usage import UsageOfOne
from understudy.built import Built


def add_to(built: Built) -> None:
    """Serve the paths below `/v1/responses`, and a request's usage where it is remembered."""
    below = StoredResponses(built.engines, built.keys, built.owners, built.end_users, built.passthrough)
    built.otherwise = mounted(below, built.otherwise)
    if built.memory is not None:
        known = built.memory.store.decisions.requests.get
        built.otherwise = UsageOfOne(built.bills, known, built.otherwise)
