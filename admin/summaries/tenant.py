"""One tenant: its use and limits, its keys, and deleting it."""

from __future__ import annotations

import time
from dataclasses import asdict

from admin.page import ActionFailed, Asked, BadParameter, Done, NotThere, Summary
from admin.sources import Sources
from admin.summaries.forgetting import detail_of, stated
from admin.summaries.keys import listed
from admin.summaries.limit_use import DAYS, limit_use, usage_by
from admin.summaries.quality import offloaded_quality
from admin.summaries.tenants import name_of, state_of_tenant
from admin.terms_form import terms_shown, version_of
from learning.bank.forgetting import Forgetter
from store.people.described import described
from store.people.keys import KeptInConfiguration
from store.records import Key, Tenant
from store.sums import DAY_S, DELETED

_DAYS_KEPT = ("texts_days", "rows_days", "examples_days")
_MOST_DAYS = 36_525
_MOST_KEYS = 500


def tenant(sources: Sources, asked: Asked) -> Summary:
    """`tenant` of the path is its id; `span`: day, week or month."""
    id = asked.path["tenant"]
    span = asked.choice("span", tuple(DAYS), "week")
    since_s = asked.now_s - DAYS[span] * DAY_S
    keys, record, name = known(sources, id)
    models = usage_by(sources, "model", since_s, asked.now_s, tenant=id)
    sources.rollups.catch_up()
    sources.store.decisions.quality.catch_up()
    references = sources.gateway.references()
    good = offloaded_quality(
        sources.store.decisions.quality.sums(DAY_S, since_s // DAY_S * DAY_S, tenant=id, by_time=False),
        references,
    )
    by_key = {row["key"]: row for row in usage_by(sources, "key", since_s, asked.now_s, tenant=id)}
    return {
        "id": id,
        "name": name_of(id, name),
        "named": name,
        "deleted": id == DELETED,
        "state": "deleted" if id == DELETED else state_of_tenant(record, asked.now_s),
        "span": span,
        "record": described(record) if record is not None else None,
        "in_configuration": record is not None and record.source == "config",
        "terms": _shown(record),
        "new_key": terms_shown(None),
        "form_version": version_of(record),
        "use": limit_use(sources, f"tenant:{id}", record.limits, asked.now_s) if record is not None else [],
        "models": models,
        "total": {
            field: sum(row[field] for row in models)
            for field in ("requests", "failed", "hits", "tokens", "cost_usd", "saved_usd")
        },
        "offloaded": sum(
            row.requests
            for row in sources.rollups.requests(DAY_S, since_s // DAY_S * DAY_S, id, by_time=False)
            if row.outcome == "answered" and row.engine != references.get(row.model, row.engine)
        ),
        "quality": {"offloaded": good, "measured": any(good.values())},
        "held": asdict(sources.store.held_of(id)),
        "keys": [
            listed(key, asked.now_s)
            | {field: by_key.get(key.id, {}).get(field, 0) for field in ("requests", "tokens", "cost_usd")}
            for key in sorted(keys, key=lambda key: (key.revoked_at_s is not None, -key.created_at_s))
        ][:_MOST_KEYS],
        "more_keys": max(0, len(keys) - _MOST_KEYS),
    }


def deletion(sources: Sources, asked: Asked) -> Summary:
    """What would go with a tenant."""
    id = asked.path["tenant"]
    if id == DELETED:
        raise NotThere("What deleted tenants have left are sums of nobody: there is nothing to delete.")
    keys, record, name = known(sources, id)
    in_force = [key for key in keys if key.revoked_at_s is None]
    return {
        "id": id,
        "name": name_of(id, name),
        "to_type": name or id,
        "held": asdict(sources.store.held_of(id)),
        "keys": [listed(key, asked.now_s) for key in in_force],
        "limits": record is not None,
        "configured": [
            *(f"keys.{key.name}" for key in in_force if key.source == "config"),
            *([f"tenants.{record.name}"] if record is not None and record.source == "config" else []),
        ],
    }


def delete_tenant(sources: Sources, asked: Asked) -> Done:
    """Revokes its keys, drops its limits and deletes everything of it; its totals stay. Form field: `name`, typed."""
    id = asked.path["tenant"]
    if id == DELETED:
        raise NotThere("What deleted tenants have left are sums of nobody: there is nothing to delete.")
    _, _, name = known(sources, id)
    if asked.text("name", longest=200) != (name or id):
        raise BadParameter(f"Type {name or id!r}, exactly so, to delete it. Nothing was deleted.", "name")
    while sources.rollups.catch_up():
        pass
    forgetter, before = Forgetter(sources.store), asdict(sources.store.held_of(id))
    try:
        done = forgetter.delete_tenant(id, name)
    except KeptInConfiguration as error:
        raise ActionFailed(f"{error}. Nothing was deleted.", "name") from error
    erased = forgetter.erase()
    said = (
        f"{name_of(id, name)} is deleted: {done.keys} keys revoked, {done.examples} examples, {done.answers} exact answers,"
        f" {done.requests} rows of the request log and {done.versions} versions of what was learnt are gone. Its totals"
        " stay, as those of deleted tenants."
    )
    if not erased:
        said += " Another process was reading: the file is rewritten without it at the next deletion."
    detail = detail_of({**before, "keys": done.keys}, sources.store.held_of(id), erased=erased)
    shown = stated(sources, time.time(), asked.viewer.name, "tenants/delete", id, detail)
    return Done(said, target=id, detail=detail, shown=shown, again=True)


def known(sources: Sources, id: str) -> tuple[list[Key], Tenant | None, str]:
    """Its keys, what is laid down for it, and its name. Raises NotThere for what is none, and for one that was deleted."""
    store = sources.store
    keys = [key for key in store.keys.listed() if key.tenant == id]
    record = next((one for one in store.tenant_records.list() if one.id == id), None)
    if id == DELETED:
        return [], None, ""
    gone = next((one for one in store.tenant_records.deleted() if one.id == id), None)
    held = store.held_of(id).anything
    if gone is not None and not held:
        raise NotThere(f"The tenant {gone.name or id} was deleted, and so was everything of it.")
    if not (keys or record or held or any(one[0] == id for one in sources.rollups.by_tenant(0.0, DAY_S))):
        raise NotThere(f"There is no tenant {id[:60]}.")
    return keys, record, record.name if record is not None else next((key.tenant_name for key in keys), "")


def _shown(record: Tenant | None) -> Summary:
    kept = asdict(record.retention) if record is not None else dict.fromkeys(_DAYS_KEPT)
    return terms_shown(record) | kept | {"region": record.region if record is not None else ""}
