"""The labels that say who asked for what, bounded in number: each value is a series of its own in Prometheus.

Clients choose model names, and without gateway keys each credential is a tenant. So a value earns its label by a request
that was answered, only so many do, and the rest share `other`.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from router.finished import Finished, Journey, Outcome

OTHER = "other"
_MOST_VALUES = 100
"""Of one label."""
_MOST_TOGETHER = 2000
"""Of model, tenant and key together."""
_MOST_CHARACTERS = 100
_UNNAMED = "unnamed"
"""What a key is called by default: its id says more."""


class Asker(NamedTuple):
    """Who asked for what."""

    model: str
    tenant: str
    key: str
    api: str


def api_of(ended: Journey) -> str:
    """Which API a request speaks; empty for the gateway's own pages."""
    # What the pipeline answers for a run came to no path of its own.
    return ended.arrival.api or ("chat" if isinstance(ended, Finished) else "")


class AskerLabels:
    """Labels of ended requests. From any thread."""

    def __init__(self, most_values: int = _MOST_VALUES, most_together: int = _MOST_TOGETHER) -> None:
        self._most_values = most_values
        self._most_together = most_together
        self._known: tuple[set[str], set[str], set[str]] = set(), set(), set()
        self._together: set[tuple[str, ...]] = set()
        self._lock = threading.Lock()

    def of(self, ended: Journey) -> Asker:
        """The labels of a request; all of them empty for the gateway's own pages."""
        arrival, api = ended.arrival, api_of(ended)
        if not api:
            return Asker("", "", "", "")
        named = arrival.key_name if arrival.key_name != _UNNAMED else ""
        given = (
            ended.model[:_MOST_CHARACTERS],
            (arrival.tenant_name or arrival.tenant)[:_MOST_CHARACTERS],
            (named or arrival.key_id or "")[:_MOST_CHARACTERS],
        )
        if given not in self._together:
            given = self._bounded(given, earns=ended.outcome in (Outcome.ANSWERED, Outcome.HIT))
        return Asker(*given, api)

    def _bounded(self, given: tuple[str, str, str], *, earns: bool) -> tuple[str, str, str]:
        with self._lock:
            model, tenant, key = (
                self._value(value, known, earns=earns)
                for value, known in zip(given, self._known, strict=True)
            )
            found = model, tenant, key
            if found in self._together:
                return found
            if len(self._together) < self._most_together:
                if earns:
                    self._together.add(found)
                return found
            return model, OTHER, OTHER

    def _value(self, value: str, known: set[str], *, earns: bool) -> str:
        if not value or value in known:
            return value
        if earns and len(known) < self._most_values:
            known.add(value)
            return value
        return OTHER
