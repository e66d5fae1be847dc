"""What was learnt: the versions of every model, how much better each was, and which are in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from admin.charts import Chart, ranges
from admin.choices import offered
from admin.formats import tenant_label
from admin.operations.versions import ALL_TENANTS, Slot, serving_name
from admin.page import Asked, Summary
from admin.sources import Sources
from learning.guarantee.summary import ScopeSummary, state_of
from learning.rehearsal.kept import latest
from router.proving.gate import OF_REFERENCE
from store.learned.artifacts import KINDS
from store.records import ArtifactRecord

_MOST_SLOTS = 100
_MOST_CHARTED = 20
_OPERATOR = "operator"
_LEARNS = "in_context"
"""The policy whose models are learnt."""
KIND_NAMES: Mapping[str, str] = {
    "bandit": "Router",
    "scorer": "Example scorer",
    "counts": "Counts",
    "student": "Student",
}
_MEASURES: Mapping[str, tuple[str, bool]] = {
    "squared_error": ("squared error of the predicted quality", False),
    "quality": ("expected quality of answers", True),
    "agreement": ("share of labels that are the teacher's", True),
}
"""learning.training.comparison.Measure: what it is called, and whether more is better."""
_AXES: Mapping[str, str] = {"squared_error": "squared error", "quality": "quality", "agreement": "agreement"}


def learning(sources: Sources, asked: Asked) -> Summary:
    """Filters: `kind`; `tenant`, an id, or "operator" for versions trained on the operator's own labels."""
    kind = asked.choice("kind", ("", *KINDS), "")
    tenant = asked.text("tenant", longest=64)
    whose = "" if tenant == _OPERATOR else tenant
    artifacts, names = sources.store.artifacts, sources.tenant_names()
    records = artifacts.versions(kind or None, whose if tenant else None, None)
    frozen = artifacts.frozen()
    outcomes: dict[tuple[str, str], int] = {}
    for (of, model, _), count in sources.store.outcomes.counts().items():
        outcomes[of, model] = outcomes.get((of, model), 0) + count
    slots: dict[Slot, list[ArtifactRecord]] = {slot: [] for slot in _untrained(sources, kind, tenant)}
    for record in records:
        slots.setdefault((record.kind, record.tenant, record.model), []).append(record)
    for slot in frozen:
        if (not kind or slot[0] == kind) and (not tenant or slot[1] == whose):
            slots.setdefault(slot, [])
    deleted = artifacts.latest_deletion()
    proven = [scope for scope in sources.gateway.proven() if not tenant or scope.tenant == whose]
    proven = proven[:_MOST_SLOTS]
    return {
        "kind": kind,
        "tenant": tenant,
        "kinds": list(KINDS),
        "kind_names": dict(KIND_NAMES),
        "tenants": offered(
            sorted(
                {(of or _OPERATOR, tenant_label(names, of) or ALL_TENANTS) for _, of, _ in slots},
                key=lambda one: one[1],
            ),
            tenant,
        ),
        "more": max(0, len(slots) - _MOST_SLOTS),
        "rows": [
            _row(KIND_NAMES[record.kind], names, record) for record in records[: _MOST_SLOTS * _MOST_CHARTED]
        ],
        "deleted": None if deleted is None else {"at_s": deleted[0], "versions": deleted[1]},
        "rehearsal": latest(sources.store.folder),
        "proof": [_proof(scope, names) for scope in proven],
        "ledgers": list({(scope.tenant, scope.model): _ledger(scope, names) for scope in proven}.values()),
        "learnt_from": [
            {"tenant": of, "tenant_name": tenant_label(names, of), "model": model, "outcomes": count}
            for (of, model), count in sorted(outcomes.items(), key=lambda one: -one[1])[:_MOST_SLOTS]
        ],
        "slots": [
            _slot_summary(sources, slot, found, names, frozen.get(slot))
            for slot, found in sorted(slots.items())[:_MOST_SLOTS]
        ],
    }


def _row(name: str, names: Mapping[str, str], record: ArtifactRecord) -> Summary:
    """A version as a flat row."""
    told = _told(record) or {}
    found = {
        "kind": name,
        "tenant": record.tenant,
        "tenant_name": tenant_label(names, record.tenant) or ALL_TENANTS,
        "model": record.model,
        "version": record.id,
        "state": record.state,
        "created_at_s": record.created_at_s,
        "outcomes": told.get("outcomes"),
        "measure": told.get("measure"),
    }
    for which in ("before", "after", "change"):
        for part in ("mean", "low", "high"):
            found[f"{which}_{part}"] = told[which][part] if told else None
    return found | {"verdict": told.get("verdict"), "note": record.note}


def _untrained(sources: Sources, kind: str, tenant: str) -> list[Slot]:
    """What every served model that learns has from the beginning: what is built in, for all tenants."""
    if tenant not in ("", _OPERATOR):
        return []
    learn = [model.name for model in sources.gateway.models if model.policy == _LEARNS]
    return [(each, "", name) for each in ("bandit", "scorer") if kind in ("", each) for name in learn]


def _slot_summary(
    sources: Sources,
    slot: Slot,
    found: list[ArtifactRecord],
    names: Mapping[str, str],
    frozen_since_s: float | None,
) -> Summary:
    kind, tenant, model = slot
    whose = tenant_label(names, tenant) if tenant else ALL_TENANTS
    in_use = next((record for record in found if record.state == "active"), None)
    serves = in_use or sources.store.artifacts.best(*slot)
    return {
        "kind": kind,
        "tenant": tenant,
        "tenant_name": whose,
        "model": model,
        "title": f"{KIND_NAMES[kind]} for {model or 'any model'} ({whose})",
        "frozen_since_s": frozen_since_s,
        "in_use": in_use.id if in_use else None,
        "serves": serves.id if serves else None,
        "serves_name": serving_name(in_use, serves),
        "versions": [version(record) for record in found],
        "chart": _chart(found),
    }


def _chart(found: list[ArtifactRecord]) -> Summary | None:
    """Before and after of the latest versions, oldest first; None where none was compared."""
    compared = [record for record in found if _comparison(record)][:_MOST_CHARTED][::-1]
    if not compared:
        return None
    each = [_comparison(record) or {} for record in compared]
    measure, more_is_better = _MEASURES[each[0]["measure"]]
    labels = [f"version {record.id}" for record in compared]
    series = [
        ("what was in use before", [one["before"] for one in each], "muted"),
        ("this version", [one["after"] for one in each], "series-1"),
    ]
    drawn: Chart = ranges(labels, series, unit=_AXES[each[0]["measure"]])
    return {"measure": measure, "more_is_better": more_is_better, "drawn": drawn}


def _comparison(record: ArtifactRecord) -> Mapping[str, Any] | None:
    found = record.metrics.get("comparison")
    return found if isinstance(found, Mapping) and found.get("measure") in _MEASURES else None


def _proof(scope: ScopeSummary, names: Mapping[str, str]) -> Summary:
    return {
        "tenant": scope.tenant,
        "tenant_name": tenant_label(names, scope.tenant),
        "model": scope.model,
        "scope": scope.scope[:8],
        "requests": scope.requests,
        "offloaded": scope.offloaded,
        "reference": {
            name: asdict(scope.reference[name]) if name in scope.reference else None for name in OF_REFERENCE
        },
        "judge_error": None if scope.error is None else asdict(scope.error),
        "regions": [
            {
                "region": region.region,
                "engine": region.action.engine,
                "examples": region.action.with_examples,
                "open": region.open,
                "state": state_of(region),
                "lower": region.lower,
                "upper": region.upper,
                "compared": region.compared,
                "expected_more": region.expected_more,
                "saving": region.saving,
            }
            for region in scope.regions
        ],
    }


def _ledger(scope: ScopeSummary, names: Mapping[str, str]) -> Summary:
    """What the ledger of a scope's tenant and model knows, and whether the judge favours length."""
    return {
        "tenant": scope.tenant,
        "tenant_name": tenant_label(names, scope.tenant),
        "model": scope.model,
        "max_loss": scope.max_loss,
        "account": asdict(scope.account),
        "length_bias": None if scope.length_bias is None else asdict(scope.length_bias),
    }


def version(record: ArtifactRecord) -> Summary:
    """One version in a list, with those of its figures that are single values."""
    plain: dict[str, Any] = {
        name: value for name, value in record.metrics.items() if isinstance(value, bool | int | float | str)
    }
    return {
        "id": record.id,
        "state": record.state,
        "comparison": _told(record),
        "created_at_s": record.created_at_s,
        "size_bytes": record.size_bytes,
        "parent": record.parent,
        "note": record.note,
        "metrics": plain,
        "sha256": record.sha256,
    }


def _told(record: ArtifactRecord) -> Summary | None:
    """Before and after on the same held-out outcomes, and what follows; None where that was not compared."""
    found = _comparison(record)
    if found is None:
        return None
    name, more_is_better = _MEASURES[found["measure"]]
    low, high = found["change"]["low"], found["change"]["high"]
    if not more_is_better:
        low, high = -high, -low
    verdict = "better" if low > 0 else "worse" if high < 0 else "no clear difference"
    return {**found, "measure_name": name, "more_is_better": more_is_better, "verdict": verdict}
