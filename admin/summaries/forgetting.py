"""Forgets an end user or what came with a key, and states what was deleted, by whom, when, and what is left."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from admin.page import Asked, BadParameter, Done, NotThere, Summary
from admin.roles import Content
from admin.sources import Sources
from admin.summaries.requests import DIGEST, tenants_to_choose
from admin.summaries.tenants import name_of
from learning.bank.forgetting import Forgetter
from store.decisions.search import Wanted
from store.held import Held
from store.people.keys import NoSuchKey
from store.people.secret import user_digest

STATED = ("forget", "tenants/delete", "/tenants/{tenant}/delete")
"""Actions of the audit log that deleted what is remembered of somebody."""
_A_USER = "a user"
"""As the audit log calls an end user: the name is what is to be forgotten."""


def forgetting(sources: Sources, asked: Asked) -> Summary:
    """What would go with an end user (`tenant`, and `user`: the name or its digest), or with a `key`."""
    tenant, key_id, digest = _whose(sources, asked)
    chosen = bool(key_id or digest)
    held = Forgetter(sources.store).held(tenant, key_id=key_id, digest=digest) if chosen else Held()
    names = sources.tenant_names()
    return {
        "tenant": tenant,
        "tenant_name": name_of(tenant, names.get(tenant, "")) if tenant else "",
        "key": key_id,
        "key_name": sources.store.keys.get(key_id).name if key_id else "",
        "digest": digest,
        "name": Content(_name(sources, asked, tenant, digest)),
        "chosen": chosen,
        "held": asdict(held),
        "anything": held.anything,
        "choices": {"tenants": tenants_to_choose(sources, tenant)},
    }


def forget(sources: Sources, asked: Asked) -> Done:
    """Forgets whom the form names as the page did. `name`: how the statement calls an end user; kept nowhere."""
    tenant, key_id, digest = _whose(sources, asked)
    if not (key_id or digest):
        raise BadParameter("Name an end user and a tenant, or a key. Nothing was deleted.", "user")
    forgetter = Forgetter(sources.store)
    before = forgetter.held(tenant, key_id=key_id, digest=digest)
    done = forgetter.contributor(tenant, key_id=key_id, digest=digest, purge=True)
    erased = forgetter.erase()
    detail = detail_of(
        {**asdict(before), "versions": done.versions, "answers": max(before.answers, done.answers)},
        forgetter.held(tenant, key_id=key_id, digest=digest),
        erased=erased,
    )
    target = key_id or _A_USER
    said = asked.text("name", longest=1000)
    whom = f"end user {said}" if said and digest else ""
    shown = stated(
        sources, time.time(), asked.viewer.name, "forget", target, detail | {"tenant": tenant}, whom
    )
    message = "Forgotten. Print this page, or save it, for whoever asked."
    return Done(message, target=target, detail=detail | {"tenant": tenant}, shown=shown, again=True)


def detail_of(deleted: Mapping[str, int], left: Held, *, erased: bool) -> dict[str, Any]:
    """A deletion, as the audit log has it: rows by kind, rows found afterwards, and whether the file was rewritten."""
    counts = {name: number for name, number in deleted.items() if number}
    return counts | {"left": sum(asdict(left).values()), "erased": erased}


def stated(
    sources: Sources,
    at_s: float,
    by: str,
    action: str,
    target: str,
    detail: Mapping[str, Any],
    whom: str = "",
) -> Summary:
    """A statement of deletion, of what the audit log has of it. `whom`: what it does not have, an end user's name."""
    tenant = str(detail.get("tenant", ""))
    names = {one.id: one.name for one in sources.store.tenant_records.deleted()} | sources.tenant_names()
    of_key = any(key.id == target for key in sources.store.keys.listed())
    of_tenant = not of_key and target != _A_USER
    if of_key or of_tenant:
        whom = f"key {target}" if of_key else f"tenant {names.get(target) or target}"
    counts = {name: detail.get(name, 0) for name in asdict(Held())}
    return {
        "whom": Content(whom or "an end user, whose name is not kept"),
        "tenant": tenant,
        "tenant_name": names.get(tenant, "") if tenant else "",
        "of_tenant": of_tenant,
        "keeps_name": bool(whom),
        "at": datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "by": by,
        "action": action,
        "deleted": counts if of_tenant else counts | {"requests": 0},
        "anything": any(count for name, count in counts.items() if of_tenant or name != "requests"),
        "nameless": 0 if of_tenant else counts["requests"],
        "keys_revoked": detail.get("keys", 0),
        "left": detail.get("left"),
        "erased": detail.get("erased", True),
    }


def statement(sources: Sources, asked: Asked) -> Summary:
    """The statement of a row of the audit log; `id` of the path."""
    id = asked.path["id"]
    number = int(id) if id.isascii() and id.isdigit() and len(id) < 16 else 0
    row = next(iter(sources.store.audit.page(before_id=number + 1, limit=1)), None)
    if row is None or row.id != number or row.action not in STATED or row.outcome != "done":
        raise NotThere("The audit log has no deletion under this number.")
    return stated(sources, row.at_s, row.user, row.action, row.target, row.detail)


def _whose(sources: Sources, asked: Asked) -> tuple[str, str, str]:
    """The tenant's id, a key's id and an end user's digest; of the last two one at most. Raises NotThere."""
    tenant, key_id = asked.text("tenant", longest=200), asked.text("key", longest=100)
    user = asked.text("user", longest=1000)
    if key_id:
        try:
            return sources.store.keys.get(key_id).tenant, key_id, ""
        except NoSuchKey as error:
            raise NotThere(f"There is no key {key_id[:60]}.") from error
    if not (tenant and user):
        return tenant, "", ""
    return tenant, "", user if DIGEST.fullmatch(user) else user_digest(sources.store.secret, tenant, user)


def _name(sources: Sources, asked: Asked, tenant: str, digest: str) -> str:
    """What clients call an end user, where that is known."""
    said = asked.text("user", longest=1000)
    if not digest or said != digest:
        return said
    decisions = sources.store.decisions
    rows = decisions.search.page(Wanted(tenant=tenant, end_user=digest), limit=20).rows
    return next(iter(decisions.details.users([row.id for row in rows]).values()), "")
