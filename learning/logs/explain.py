"""Why so little is answered by a smaller engine: per task scope of the request log, with what it would take.

Reads the log of requests, what was weighed for them and how good answers turned out to be; changes nothing. `understudy
explain` and the admin overview show the same.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from learning.evaluation.intervals import Interval, widened
from learning.logs.reasons import NOT_GOOD_ENOUGH, SCOPE_CHANGES, SMALL_FAILED, told
from router.digest import shared_scope
from store import Store
from store.records import ChoiceRecord, OutcomeRecord, RequestRecord

_RARE = 2
"""A scope with so many requests or fewer has no others like it."""
_MANY_RARE = 10
"""From so many rare scopes on, it is the scope that changes."""
_LEVEL = 0.95
_STATE_REASONS = ("shadow",)
_OUTCOMES = 20_000
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
    """What they would have cost without a gateway."""
    reasons: Counter[str] = field(default_factory=Counter)
    qualities: dict[tuple[str, bool], list[float]] = field(default_factory=dict)

    def add(self, other: _Group) -> None:
        self.scopes += other.scopes
        self.requests += other.requests
        self.hits += other.hits
        self.offloaded += other.offloaded
        self.cost_usd += other.cost_usd
        self.reasons.update(other.reasons)
        for action, found in other.qualities.items():
            self.qualities.setdefault(action, []).extend(found)


def explained(
    store: Store,
    *,
    references: Mapping[str, str] | None = None,
    tenant: str | None = None,
    limit: int,
    max_loss: float = 0.05,
    progress: ReportProgress = lambda done, total: None,
) -> dict[str, Any]:
    """JSON: the latest `limit` requests by scope, the dearest first. `references`: each model's, where it is known.

    Blocks, for about a tenth of a millisecond per request.
    """
    rows = [
        row for row in store.decisions.requests.recent(limit, tenant) if row.outcome in ("hit", "answered")
    ]
    groups = _grouped(store, rows, dict(references or {}), progress)
    pooled = _pooled(list(groups.values()))
    requests = sum(group.requests for group in pooled)
    cost_usd = sum(group.cost_usd for group in pooled)
    ordered = sorted(pooled, key=lambda group: (-group.cost_usd, -group.requests))
    return {
        "requests": requests,
        "cost_usd": cost_usd,
        "hits": sum(group.hits for group in pooled),
        "offloaded": sum(group.offloaded for group in pooled),
        "max_loss": max_loss,
        "scopes": [_told(group, requests, cost_usd, max_loss) for group in ordered],
    }


def label(store: Store, tenant: str, scope: str) -> str:
    """The beginning of a scope's instructions, which somebody wrote; empty where they are not kept."""
    kept = store.examples.instructions(tenant, scope) if scope else None
    if kept is None:
        return ""
    texts, form = json.loads(kept)
    words = " ".join(" ".join(texts).split())
    return words[:_LABEL_CHARACTERS] or ("no system prompt" if form is None else "a response format alone")


def _grouped(
    store: Store, rows: Sequence[RequestRecord], references: dict[str, str], progress: ReportProgress
) -> dict[tuple[str, str, str], _Group]:
    choices: dict[str, ChoiceRecord | None] = {}
    for done, row in enumerate(rows):
        if done % 100 == 0:
            progress(done, len(rows))
        choice = store.decisions.choices.get(row.tenant, row.id) if row.outcome != "hit" else None
        choices[row.id] = choice
        if choice is not None and row.model not in references:
            references |= _reference(choice)
    outcomes = _outcomes(store)
    hits = _scopes_of_hits(rows, choices, store)
    groups: dict[tuple[str, str, str], _Group] = {}
    for row in rows:
        scope = (
            hits.get(row.exact_key or b"", "")
            if row.outcome == "hit"
            else _scope(store, row, choices[row.id])
        )
        group = groups.setdefault((row.tenant, row.model, scope), _Group(row.tenant, row.model, scope))
        _count(group, row, references.get(row.model, ""))
        for outcome in outcomes.get((row.tenant, row.id), ()):
            if outcome.engine != references.get(row.model):
                action = outcome.engine, bool(outcome.example_ids)
                group.qualities.setdefault(action, []).append(outcome.quality)
    return groups


def _count(group: _Group, row: RequestRecord, reference: str) -> None:
    group.requests += 1
    group.cost_usd += row.cost_usd if row.reference_cost_usd is None else row.reference_cost_usd
    if row.outcome == "hit":
        group.hits += 1
    elif row.example_ids or (reference and row.engine != reference):
        group.offloaded += 1
    else:
        code, _, stood_in = row.reason.partition("+")
        group.reasons[SMALL_FAILED if stood_in else code] += 1


def _reference(choice: ChoiceRecord) -> dict[str, str]:
    """The reference of a served model: of all that could have been done, the engine that never gets examples."""
    with_examples = {action["engine"] for action in choice.actions if action["with_examples"]}
    alone = [action["engine"] for action in choice.actions if action["engine"] not in with_examples]
    return {choice.model: alone[-1]} if alone else {}


def _outcomes(store: Store) -> dict[tuple[str, str], list[OutcomeRecord]]:
    found: dict[tuple[str, str], list[OutcomeRecord]] = {}
    for outcome in store.outcomes.after(max(0, store.outcomes.last_id() - _OUTCOMES), _OUTCOMES):
        found.setdefault((outcome.tenant, outcome.request_id), []).append(outcome)
    return found


def _scope(store: Store, row: RequestRecord, choice: ChoiceRecord | None) -> str:
    """As it was logged, or that of the example that the answer became; empty where neither tells."""
    logged = getattr(choice, "scope", "")
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


def _told(group: _Group, requests: int, cost_usd: float, max_loss: float) -> dict[str, Any]:
    standings = [_standing(action, found) for action, found in sorted(group.qualities.items())]
    hopeless = bool(standings) and all(each["high"] < 1.0 - max_loss for each in standings)
    reasons = Counter(group.reasons)
    if hopeless:
        for code in _STATE_REASONS:
            if reasons[code]:
                reasons[NOT_GOOD_ENOUGH] += reasons.pop(code)
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
        "standings": standings,
    }


def _standing(action: tuple[str, bool], qualities: Sequence[float]) -> dict[str, Any]:
    """How good an engine's answers were, with and without examples, as far as outcomes tell."""
    mean = sum(qualities) / len(qualities)
    interval = widened(Interval(mean, mean), mean, len(qualities), (0.0, 1.0), _LEVEL)
    engine, with_examples = action
    return {
        "engine": engine,
        "with_examples": with_examples,
        "compared": len(qualities),
        "quality": mean,
        "low": interval.low,
        "high": interval.high,
    }
