"""What was learnt: the versions of every artifact, their figures, and which are in use; rolling back and freezing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.page import ActionFailed, Asked, Done, Summary
from admin.sources import Sources
from learning.proof.summary import ScopeSummary, state_of
from store.learned.artifacts import KINDS, ArtifactBroken
from store.records import ArtifactRecord

_MOST_SLOTS = 100
_OPERATOR = "operator"


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
    slots: dict[tuple[str, str, str], list[ArtifactRecord]] = {}
    for record in records:
        slots.setdefault((record.kind, record.tenant, record.model), []).append(record)
    for slot in frozen:
        if (not kind or slot[0] == kind) and (not tenant or slot[1] == whose):
            slots.setdefault(slot, [])
    return {
        "kind": kind,
        "tenant": tenant,
        "kinds": list(KINDS),
        "tenants": sorted(
            {(of or _OPERATOR, names.get(of) or of or _OPERATOR) for _, of, _ in slots},
            key=lambda one: one[1],
        ),
        "more": max(0, len(slots) - _MOST_SLOTS),
        "proof": [
            _proof(scope, names) for scope in sources.gateway.proven() if not tenant or scope.tenant == whose
        ][:_MOST_SLOTS],
        "learnt_from": [
            {"tenant": of, "tenant_name": names.get(of) or of, "model": model, "outcomes": count}
            for (of, model), count in sorted(outcomes.items(), key=lambda one: -one[1])[:_MOST_SLOTS]
        ],
        "slots": [
            {
                "kind": slot[0],
                "tenant": slot[1],
                "tenant_name": names.get(slot[1]) or slot[1] or _OPERATOR,
                "model": slot[2],
                "frozen_since_s": frozen.get(slot),
                "in_use": next((record.id for record in found if record.state == "active"), None),
                "versions": [version(record) for record in found],
            }
            for slot, found in sorted(slots.items())[:_MOST_SLOTS]
        ],
    }


def roll_back(sources: Sources, asked: Asked) -> Done:
    """Takes the version into use that was used before; before the first, the built-in prior or rule."""
    slot = _slot(asked)
    if sources.store.artifacts.active(*slot) is None:
        raise ActionFailed("Nothing learnt is in use there: there is nothing to go back from.")
    now = sources.store.artifacts.rollback(*slot)
    said = f"version {now.id}" if now else "what is built in, or the operator's own version"
    return Done(
        f"In use now: {said}. The learner may publish a new version; freeze to keep it from that.",
        target="/".join(slot),
        detail={"to": now.id if now else None},
    )


def use(sources: Sources, asked: Asked) -> Done:
    """Takes `version` into use, whatever its state."""
    version = asked.whole("version", 0)
    record = sources.store.artifacts.get(version)
    if record is None:
        raise ActionFailed(f"There is no version {version}: it may have been dropped for its age.")
    try:
        sources.store.artifacts.read(record)
    except ArtifactBroken as broken:
        raise ActionFailed(f"{broken}.") from broken
    sources.store.artifacts.activate(version)
    return Done(
        f"In use now: version {version}. Workers follow within a second.",
        target=f"{record.kind}/{record.tenant}/{record.model}",
        detail={"to": version},
    )


def freeze(sources: Sources, asked: Asked) -> Done:
    """Freezes the version in use: new versions are stored, and not used."""
    slot = _slot(asked)
    sources.store.artifacts.freeze(*slot)
    return Done("Frozen: new versions are kept, and not taken into use.", target="/".join(slot))


def unfreeze(sources: Sources, asked: Asked) -> Done:
    """Unfreezes: the next accepted version is taken into use."""
    slot = _slot(asked)
    if not sources.store.artifacts.unfreeze(*slot):
        raise ActionFailed("It was not frozen.")
    return Done(
        "Not frozen any more: the next version that is better is taken into use.", target="/".join(slot)
    )


def _slot(asked: Asked) -> tuple[str, str, str]:
    return (
        asked.choice("kind", KINDS, KINDS[0]),
        asked.text("tenant", longest=64),
        asked.text("model", longest=200),
    )


def _proof(scope: ScopeSummary, names: Mapping[str, str]) -> Summary:
    return {
        "tenant": scope.tenant,
        "tenant_name": names.get(scope.tenant) or scope.tenant,
        "model": scope.model,
        "scope": scope.scope[:8],
        "requests": scope.requests,
        "offloaded": scope.offloaded,
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
            }
            for region in scope.regions
        ],
    }


def version(record: ArtifactRecord) -> Summary:
    """One version in a list, with those of its figures that are single values."""
    plain: dict[str, Any] = {
        name: value for name, value in record.metrics.items() if isinstance(value, bool | int | float | str)
    }
    return {
        "id": record.id,
        "state": record.state,
        "created_at_s": record.created_at_s,
        "size_bytes": record.size_bytes,
        "parent": record.parent,
        "note": record.note,
        "metrics": plain,
        "sha256": record.sha256,
    }
