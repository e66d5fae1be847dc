"""Sums up what is proven per scope, and how much of its traffic that opens: for pages and reports, from the store alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import correlation

from learning.guarantee.proof import ProofFollower
from router.proving.gate import MAY_LOSE, Account, Gate, RegionSummary, SeenOfReference
from router.proving.regions import AGREEMENT, GRADED, MEASURED
from router.proving.standing import Action
from store.decisions.choices import Choices
from store.decisions.outcomes import Outcomes
from store.records import ChoiceRecord

_TELLS_FROM = 20
"""Answers from which on something is said of the judge."""
_RECENT = 500
"""Latest requests of a tenant and model whose share is told."""
_LATELY = {
    AGREEMENT: "its answers agree less with the reference's than they did",
    MEASURED: "its measured quality fell",
    GRADED: "people's words of it got worse",
}
"""What puts an engine in doubt, by the kind of evidence."""


@dataclass(frozen=True, slots=True)
class ScopeSummary:
    """One scope of a tenant and served model."""

    tenant: str
    model: str
    scope: str
    requests: int
    """The number of the latest requests that are under this scope."""
    offloaded: int
    """The number of these that a small engine answered."""
    regions: tuple[RegionSummary, ...]
    reference: Mapping[str, SeenOfReference]
    """What is known of the reference's own answers (router.proving.gate.OF_REFERENCE)."""
    error: SeenOfReference | None
    """The share of the reference's own second answers that are found worse: the error of the judge, or of equality."""
    max_loss: float
    account: Account
    """The ledger of the tenant and model."""
    length_bias: LengthBias | None
    """Of the tenant and model; None where too few answers were both judged and rated."""


@dataclass(frozen=True, slots=True)
class LengthBias:
    """How the quality of small engines' answers goes with their length beside the reference's: Pearson's correlations, of
    the same answers."""

    answers: int
    judged: float
    """By the judge, or equality."""
    rated: float
    """By people. Where a judge favours length more than they do, it errs."""


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
            self._follower.read()
            return [summary for model in self._gates for summary in self._of(model)]

    def _of(self, model: str) -> list[ScopeSummary]:
        gate = self._gates[model]
        by_scope: dict[tuple[str, str], list[RegionSummary]] = {}
        for region in gate.summary():
            by_scope.setdefault((region.tenant, region.scope), []).append(region)
        traffic = {tenant: self._traffic(tenant, model) for tenant in {key[0] for key in by_scope}}
        accounts = {tenant: gate.account(tenant) for tenant in traffic}
        biases = {tenant: _length_bias(self._outcomes.judged_and_rated(tenant, model)) for tenant in traffic}
        summaries = []
        for (tenant, scope), regions in by_scope.items():
            latest = traffic[tenant].get(scope, [])
            seen = gate.seen(tenant, scope)
            error = _error(seen)
            too_noisy = error is not None and error.mean > MAY_LOSE * gate.max_loss
            told = tuple(
                replace(
                    each,
                    saving=_saving(latest, each.action, gate.small),
                    noise=error.mean if error is not None and too_noisy else None,
                )
                for each in regions
            )
            offloaded = sum(choice.engine in gate.small for choice in latest)
            summaries.append(
                ScopeSummary(
                    tenant,
                    model,
                    scope,
                    len(latest),
                    offloaded,
                    told,
                    seen,
                    error,
                    gate.max_loss,
                    accounts[tenant],
                    biases[tenant],
                )
            )
        return summaries

    def _traffic(self, tenant: str, model: str) -> dict[str, list[ChoiceRecord]]:
        """The latest requests by scope."""
        found: dict[str, list[ChoiceRecord]] = {}
        latest = self._outcomes.experiences(tenant, model, limit=_RECENT, judged_only=False, latest=True)
        for each in latest:
            found.setdefault(each.choice.scope, []).append(each.choice)
        return found


def _saving(latest: Sequence[ChoiceRecord], action: Action, small: Sequence[str]) -> float | None:
    """1 less the action's expected cost over the reference's, of the requests for which both were weighed; None without."""
    spent_usd = reference_usd = 0.0
    for choice in latest:
        costs = {Action(one["engine"], one["with_examples"]): one.get("cost_usd") for one in choice.actions}
        reference = [cost for way, cost in costs.items() if way.engine not in small and cost is not None]
        cost_usd = costs.get(action)
        if reference and cost_usd is not None:
            spent_usd += cost_usd
            reference_usd += max(reference)
    return 1.0 - spent_usd / reference_usd if reference_usd > 0.0 else None


def _length_bias(found: Sequence[tuple[str, float, float]]) -> LengthBias | None:
    told = [
        (length, judged, rated)
        for detail, judged, rated in found
        if (length := json.loads(detail).get("length")) is not None
    ]
    columns = list(zip(*told, strict=True))
    if len(told) < _TELLS_FROM or any(len(set(column)) == 1 for column in columns):
        return None
    lengths, judged, rated = columns
    return LengthBias(len(told), correlation(lengths, judged), correlation(lengths, rated))


def _error(seen: Mapping[str, SeenOfReference]) -> SeenOfReference | None:
    again = seen.get("again")
    if again is None or again.count < _TELLS_FROM:
        return None
    return SeenOfReference(again.count, 1.0 - again.mean, 1.0 - again.high, 1.0 - again.low)


def state_of(region: RegionSummary) -> str:
    """In words what keeps the region closed or its engine from answering, or that it is open."""
    if region.in_doubt is not None:
        since = datetime.fromtimestamp(region.in_doubt_since_s or 0.0, UTC)
        return f"in doubt since {since:%Y-%m-%d %H:%M} UTC: {_LATELY[region.in_doubt]}"
    if region.open:
        return "proven"
    if region.expected_more is None and region.noise is not None:
        return (
            f"the judge, or equality, finds {region.noise:.0%} of the reference's own second answers worse:"
            f" nothing can be proven below max_loss {region.noise / MAY_LOSE:.2f}"
        )
    if region.expected_more is None:
        why = "not good enough" if region.hopeless else "not expected to be proven"
        lost = "" if region.mean is None else f": loses {1 - region.mean:.2f} of quality"
        save = "" if region.saving is None else f" and save {100 * max(0.0, region.saving):.0f} %"
        return f"{why}{lost}; max_loss {(1 - region.lower) / MAY_LOSE:.2f} would open it{save}"
    return f"about {region.expected_more} more comparisons"
