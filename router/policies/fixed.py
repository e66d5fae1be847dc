"""Always one engine: the baseline every other policy must beat."""

from __future__ import annotations

from router.plan import Ask, Attempt, Plan


class Fixed:
    """`engines[0]` answers; the others stand in when it fails."""

    name = "fixed"

    def __init__(self, engines: tuple[str, ...], *, reason: str = "fixed") -> None:
        self._attempts = tuple(Attempt(engine) for engine in engines)
        self._reason = reason

    async def decide(self, ask: Ask) -> Plan:
        """See router.policy.Policy."""
        return Plan(self._attempts, self.name, "1", self._reason)
