"""What is proven per scope, and how much of its traffic that opens: for pages and reports, read from the store alone."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from learning.proof.follower import ProofFollower
from router.proving.gate import Gate, RegionSummary
from store.decisions.choices import Choices
from store.decisions.outcomes import Outcomes

_RECENT = 500
"""Latest requests of a tenant and model whose share is told."""


@dataclass(frozen=True, slots=True)
class ScopeSummary:
    """One scope of a tenant and served model."""

    tenant: str
    model: str
    scope: str
    requests: int
    """Of the latest requests, those under this scope."""
    offloaded: int
    """Of these, those that a small engine answered."""
    regions: tuple[RegionSummary, ...]
    reference: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """What is known of the reference's own answers (router.proving.gate.OF_REFERENCE): number and mean."""


class ProofReader:
    """Comes to the same state as the workers, whenever it is asked. Any thread may call it; it blocks."""

    def __init__(self, outcomes: Outcomes, choices: Choices, gates: Mapping[str, Gate]) -> None:
        """`gates` by served model, of its own: no policy asks them."""
        self._outcomes = outcomes
        self._gates = dict(gates)
        self._follower = ProofFollower(outcomes, choices, gates, says=False)
        self._lock = threading.Lock()

    def scopes(self) -> list[ScopeSummary]:
        """Every scope with outcomes, of each model those with the latest first."""
        with self._lock:
            self._follower.look()
            return [summary for model in self._gates for summary in self._of(model)]

    def _of(self, model: str) -> list[ScopeSummary]:
        gate = self._gates[model]
        by_scope: dict[tuple[str, str], list[RegionSummary]] = {}
        for region in gate.summary():
            by_scope.setdefault((region.tenant, region.scope), []).append(region)
        traffic = {tenant: self._traffic(tenant, model, gate) for tenant in {key[0] for key in by_scope}}
        return [
            ScopeSummary(
                tenant,
                model,
                scope,
                *traffic[tenant].get(scope, (0, 0)),
                tuple(regions),
                gate.seen(tenant, scope),
            )
            for (tenant, scope), regions in by_scope.items()
        ]

    def _traffic(self, tenant: str, model: str, gate: Gate) -> dict[str, tuple[int, int]]:
        """Requests and those offloaded, by scope, among the latest."""
        found: dict[str, tuple[int, int]] = {}
        latest = self._outcomes.experiences(tenant, model, limit=_RECENT, judged_only=False, latest=True)
        for each in latest:
            requests, offloaded = found.get(each.choice.scope, (0, 0))
            by_small = each.choice.engine in gate.small
            found[each.choice.scope] = (requests + 1, offloaded + by_small)
        return found


def state_of(region: RegionSummary) -> str:
    """In words what keeps the region closed, or that it is open."""
    if region.open:
        return "proven"
    if region.expected_more is None:
        why = "not good enough" if region.hopeless else "not expected to be proven"
        lost = "" if region.mean is None else f": loses {1 - region.mean:.2f} of quality"
        return f"{why}{lost}; max_loss {1 - region.lower:.2f} would open it"
    return f"about {region.expected_more} more comparisons"
