"""Why so little is answered by a smaller engine: per task scope of the request log, with what it would take.

Reads the log of requests, what was weighed for them and how good answers turned out to be; changes nothing. `understudy
explain` and the admin overview show the same.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from learning.guarantee.summary import ProofReader, ScopeSummary, state_of
from learning.logs.reasons import IN_DOUBT, NO_JUDGE, NOT_GOOD_ENOUGH, SCOPE_CHANGES, SMALL_FAILED, told
from learning.outcomes.account import REFUSED
from router.digest import shared_scope
from router.plan import SHADOW
from router.proving.gate import Gate, RegionSummary
from store import Store
from store.records import ChoiceRecord, RequestRecord
from store.sums import DAY_S

_RARE = 2
"""A scope with so many requests or fewer has no others like it."""
_MANY_RARE = 10
"""From so many rare scopes on, it is the scope that changes."""
_LABEL_CHARACTERS = 120

ReportProgress = Callable[[int, int], None]


@dataclass(slots=True)
class _Group:
    """Requests of one scope."""

    tenant: str
    model: str
    scope: str
    scopes: int = 1
    requests: int = 0
    hits: int = 0
    offloaded: int = 0
    cost_usd: float = 0.0
    """Their cost without a gateway."""
    reasons: Counter[str] = field(default_factory=Counter)
    shadows_at_s: list[float] = field(default_factory=list)
    """When those were decided whose reason is SHADOW."""

    def add(self, other: _Group) -> None:
        self.scopes += other.scopes
        self.requests += other.requests
        self.hits += other.hits
        self.offloaded += other.offloaded
        self.cost_usd += other.cost_usd
        self.reasons.update(other.reasons)


def explained(
    store: Store,
    *,
    references: Mapping[str, str] | None = None,
    proven: Callable[[], Sequence[ScopeSummary]] | None = None,
    tenant: str | None = None,
    limit: int,
    max_loss: float = 0.05,
    progress: ReportProgress = lambda done, total: None,
) -> dict[str, Any]:
    """JSON: the latest `limit` requests by scope, the dearest first. `references`: each model's, and `proven`: what is
    proven of small engines; the log tells where they are not known, with `max_loss`.

    Blocks, for about a tenth of a millisecond per request.
    """
    rows = [
        row for row in store.decisions.requests.recent(limit, tenant) if row.outcome in ("hit", "answered")
    ]
    references = dict(references or {})
    small: dict[str, list[str]] = {}
    groups = _grouped(store, rows, references, small, progress)
    pooled = _pooled(list(groups.values()))
    requests = sum(group.requests for group in pooled)
    cost_usd = sum(group.cost_usd for group in pooled)
    scopes = _proven(store, small, max_loss) if proven is None else proven()
    regions = {(each.tenant, each.model, each.scope): each.regions for each in scopes}
    ordered = sorted(pooled, key=lambda group: (-group.cost_usd, -group.requests))
    now_s = time.time()
    refused = {
        whose
        for whose in {group.tenant for group in pooled}
        if store.decisions.spending.spent(REFUSED, now_s - DAY_S, now_s, whose)
    }
    return {
        "requests": requests,
        "cost_usd": cost_usd,
        "hits": sum(group.hits for group in pooled),
        "offloaded": sum(group.offloaded for group in pooled),
        "max_loss": max_loss,
        "scopes": [
            _told(
                group,
                requests,
                cost_usd,
                regions.get((group.tenant, group.model, group.scope), ()),
                judge_refused=group.tenant in refused,
            )
            for group in ordered
        ],
    }


def label(store: Store, tenant: str, scope: str) -> str:
    """The beginning of a scope's instructions, which somebody wrote; empty if they are not kept."""
    kept = store.examples.instructions(tenant, scope) if scope else None
    if kept is None:
        return ""
    texts, form = json.loads(kept)
    words = " ".join(" ".join(texts).split())
    return words[:_LABEL_CHARACTERS] or ("no system prompt" if form is None else "a response format alone")


def _grouped(
    store: Store,
    rows: Sequence[RequestRecord],
    references: dict[str, str],
    small: dict[str, list[str]],
    progress: ReportProgress,
) -> dict[tuple[str, str, str], _Group]:
    """By tenant, model and scope. Adds to `references` and `small` what the log says of each model's engines."""
    choices: dict[str, ChoiceRecord | None] = {}
    for done, row in enumerate(rows):
        if done % 100 == 0:
            progress(done, len(rows))
        choice = store.decisions.choices.get(row.tenant, row.id) if row.outcome != "hit" else None
        choices[row.id] = choice
        if choice is not None and row.model not in small:
            small[row.model] = _engines(choice, references)
    scopes_of_hits = _scopes_of_hits(rows, choices, store)
    groups: dict[tuple[str, str, str], _Group] = {}
    for row in rows:
        scope = _scope(store, row, choices[row.id])
        if row.outcome == "hit":
            scope = scopes_of_hits.get(row.exact_key or b"", "")
        group = groups.setdefault((row.tenant, row.model, scope), _Group(row.tenant, row.model, scope))
        _count(group, row, references.get(row.model, ""))
    return groups


def _count(group: _Group, row: RequestRecord, reference: str) -> None:
    group.requests += 1
    group.cost_usd += row.cost_usd or 0.0 if row.reference_cost_usd is None else row.reference_cost_usd
    if row.outcome == "hit":
        group.hits += 1
    elif row.example_ids or (reference and row.engine != reference):
        group.offloaded += 1
    else:
        code, _, stood_in = row.reason.partition("+")
        group.reasons[SMALL_FAILED if stood_in else code] += 1
        if code == SHADOW and not stood_in:
            group.shadows_at_s.append(row.started_at_s)


def _engines(choice: ChoiceRecord, references: dict[str, str]) -> list[str]:
    """A served model's engines that need proof; of all that could have been done, the reference never gets examples."""
    with_examples = {action["engine"] for action in choice.actions if action["with_examples"]}
    names = dict.fromkeys(action["engine"] for action in choice.actions)
    alone = [name for name in names if name not in with_examples]
    if alone:
        references.setdefault(choice.model, alone[-1])
    return [name for name in names if name != references.get(choice.model)]


def _proven(store: Store, small: Mapping[str, Sequence[str]], max_loss: float) -> list[ScopeSummary]:
    gates = {model: Gate(engines, max_loss) for model, engines in small.items() if engines}
    return ProofReader(store.outcomes, store.decisions.choices, gates).scopes()


def _scope(store: Store, row: RequestRecord, choice: ChoiceRecord | None) -> str:
    """As it was logged, or that of the example that the answer became; empty if neither tells."""
    logged = choice.scope if choice is not None else ""
    if not logged and choice is not None:
        example = store.examples.by_request(row.tenant, row.id)
        logged = example.scope if example is not None else ""
    return shared_scope(logged)


def _scopes_of_hits(
    rows: Sequence[RequestRecord], choices: Mapping[str, ChoiceRecord | None], store: Store
) -> dict[bytes, str]:
    """The scope of an exact repeat is that of the request whose answer it was given."""
    return {
        row.exact_key: _scope(store, row, choices[row.id])
        for row in rows
        if row.outcome != "hit" and row.exact_key is not None
    }


def _pooled(groups: Sequence[_Group]) -> list[_Group]:
    """Scopes that hardly any two requests share are one line: the instructions change with every request."""
    kept: list[_Group] = []
    rare: dict[tuple[str, str], list[_Group]] = {}
    for group in groups:
        if group.scope and group.requests <= _RARE and not group.offloaded:
            rare.setdefault((group.tenant, group.model), []).append(group)
        else:
            kept.append(group)
    for (tenant, model), few in rare.items():
        if len(few) < _MANY_RARE:
            kept += few
            continue
        pool = _Group(tenant, model, "", scopes=0)
        for group in few:
            pool.add(group)
        pool.reasons = Counter({SCOPE_CHANGES: pool.reasons.total()})
        kept.append(pool)
    return kept


def _told(
    group: _Group,
    requests: int,
    cost_usd: float,
    regions: Sequence[RegionSummary],
    *,
    judge_refused: bool,
) -> dict[str, Any]:
    more = [each.expected_more for each in regions if not each.open and each.expected_more is not None]
    reasons = Counter(group.reasons)
    doubts_s = [each.in_doubt_since_s or 0.0 for each in regions if each.in_doubt is not None]
    if doubts_s and (doubted := sum(at_s > min(doubts_s) for at_s in group.shadows_at_s)):
        reasons[IN_DOUBT] = doubted
        reasons[SHADOW] -= doubted
    if regions and not more and not any(each.open for each in regions) and reasons[SHADOW]:
        reasons[NOT_GOOD_ENOUGH] += reasons.pop(SHADOW)
    if judge_refused and not regions and reasons[SHADOW]:
        reasons[NO_JUDGE] += reasons.pop(SHADOW)
    return {
        "tenant": group.tenant,
        "model": group.model,
        "scope": group.scope,
        "scopes": group.scopes,
        "requests": group.requests,
        "request_share": group.requests / requests if requests else None,
        "cost_usd": group.cost_usd,
        "cost_share": group.cost_usd / cost_usd if cost_usd else None,
        "hits": group.hits,
        "offloaded": group.offloaded,
        "expected_more": min(more, default=None),
        "reasons": [
            {
                "reason": code,
                "requests": count,
                "share": count / group.requests,
                "says": told(code).says,
                "takes": told(code).takes,
            }
            for code, count in reasons.most_common()
            if count
        ],
        "standings": [
            {
                "engine": each.action.engine,
                "few_shot": each.action.with_examples,
                "region": each.region,
                "open": each.open,
                "compared": each.compared,
                "low": each.lower,
                "high": each.upper,
                "expected_more": each.expected_more,
                "state": state_of(each),
                "in_doubt": each.in_doubt,
                "in_doubt_since_at_s": None if each.in_doubt is None else each.in_doubt_since_s,
                "saving": each.saving,
                "seconds": each.seconds,
                "reference_seconds": each.reference_seconds,
            }
            for each in regions
        ],
    }
