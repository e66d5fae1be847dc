"""The seam of this room: a policy decides."""

from __future__ import annotations

from typing import Protocol

from router.plan import Ask, Plan


class Policy(Protocol):
    """Decides who answers a request, and with which examples."""

    @property
    def name(self) -> str: ...

    async def decide(self, ask: Ask) -> Plan:
        """Never fails a request: what is late or broken inside is gone without, and named in Plan.bypassed."""
        ...
