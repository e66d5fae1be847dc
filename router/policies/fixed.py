"""Sends every request to one engine: the baseline that every other policy must beat."""

from __future__ import annotations

from router.plan import Ask, Attempt, Plan


class Fixed:
    """Implements router.plan.Policy: `engines[0]` answers; the others are tried in order when it fails."""

    name = "fixed"

    def __init__(self, engines: tuple[str, ...], *, reason: str = "fixed") -> None:
        self._attempts = tuple(Attempt(engine) for engine in engines)
        self._reason = reason

    async def decide(self, ask: Ask) -> Plan:
        """See router.plan.Policy."""
        return Plan(self._attempts, self.name, "1", self._reason)
