"""Operations on what is laid down for tenants."""

from __future__ import annotations

from functools import partial
from typing import Any

from admin.operations.operation import By, Given, Operation, Outcome
from admin.operations.people import (
    OneTenant,
    Paging,
    changed,
    listed,
    refusals,
    refuse_if_changed,
    unless_changed,
)
from admin.page import NotThere
from admin.roles import Role
from admin.sources import Sources
from store.people.described import TenantFields, changes, described, patched, replaced
from store.validating import read, without_nulls


def list_tenants(sources: Sources, by: By, given: Paging) -> Outcome:
    """What is laid down, by name."""
    found = [one for one in sources.store.tenant_records.list() if one.name > given.after]
    more = found[given.limit - 1].name if len(found) > given.limit else None
    return listed([described(one) for one in found[: given.limit]], more)


def show_tenant(sources: Sources, by: By, given: OneTenant) -> Outcome:
    """What is laid down for one tenant."""
    with refusals():
        return Outcome("", value=described(sources.store.tenant_records.named(given.name)))


def create_tenant(sources: Sources, by: By, given: Given) -> Outcome:
    """Lay something down for a tenant that nothing was laid down for."""
    name, records = given["name"], sources.store.tenant_records
    new = read(TenantFields, without_nulls(_fields(given)))
    if by.surface == "cli" and new.expires_at_s is not None and new.expires_at_s <= by.now_s:
        raise ValueError("expires_at has passed: a time to come is right")
    refuse_if_changed(by, None)
    with refusals():
        made = records.create(name, new, region=new.region, retention=new.retention, source=by.source)
        if new.closed:
            made = records.close(name)[1]
    said = f"Tenant {name} is made; `understudy keys create --tenant` makes its keys."
    return Outcome(said, made.id, changes(None, made), described(made), made=True)


def edit_tenant(change: Any, sources: Sources, by: By, given: Given) -> Outcome:
    """Change what is laid down; `change` is `patched` or `replaced`."""
    fields = _fields(given)
    with refusals():
        edited = sources.store.tenant_records.edit(
            given["name"], unless_changed(by, lambda tenant: change(tenant, fields))
        )
    return changed(*edited)


def put_tenant(sources: Sources, by: By, given: Given) -> Outcome:
    """Lay something down for a tenant; what is not named becomes as in a new one."""
    try:
        return edit_tenant(replaced, sources, by, given)
    except NotThere:
        return create_tenant(sources, by, given)


def close_tenant(sources: Sources, by: By, given: OneTenant) -> Outcome:
    """Have its keys refused until it is opened again; once more changes nothing."""
    with refusals():
        return changed(*sources.store.tenant_records.close(given.name))


def _fields(given: Given) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != "name"}


LIST = Operation("tenants/list", "List what is laid down for tenants.", Paging, list_tenants, Role.VIEWER)
SHOW = Operation(
    "tenants/show",
    "Show what is laid down for a tenant.",
    OneTenant,
    show_tenant,
    Role.VIEWER,
    arguments=("name",),
)
CREATE = Operation(
    "tenants/create",
    "Lay something down for a tenant. Keys name it: `keys create --tenant NAME`.",
    TenantFields,
    create_tenant,
    arguments=("name",),
    unread=True,
)
EDIT = Operation(
    "tenants/edit",
    "Change what a tenant may use; what is not named stays, and `none` takes a limit back.",
    TenantFields,
    partial(edit_tenant, patched),
    arguments=("name",),
    unread=True,
)
PUT = Operation("tenants/put", "Make a tenant, or lay down its terms.", TenantFields, put_tenant, unread=True)
CLOSE = Operation("tenants/close", "Close a tenant.", OneTenant, close_tenant, arguments=("name",))
