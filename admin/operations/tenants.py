"""Operations on what is laid down for tenants."""

from __future__ import annotations

from typing import Any

from admin.operations.operation import By, Given, Outcome, operation
from admin.operations.people import (
    OneTenant,
    Paging,
    changed,
    edited,
    listed,
    refusals,
    refuse_if_changed,
)
from admin.page import NotThere
from admin.roles import Role
from admin.sources import Sources
from store.people.described import TenantFields, changes, described, patched, replaced
from store.validating import read, without_nulls


@operation("tenants/list", role=Role.VIEWER)
def list_tenants(sources: Sources, by: By, given: Paging) -> Outcome:
    """List what is laid down for tenants."""
    found = [one for one in sources.store.tenant_records.list() if one.name > given.after]
    more = found[given.limit - 1].name if len(found) > given.limit else None
    return listed([described(one) for one in found[: given.limit]], more)


@operation("tenants/show", role=Role.VIEWER, arguments=("name",))
def show_tenant(sources: Sources, by: By, given: OneTenant) -> Outcome:
    """Show what is laid down for a tenant."""
    with refusals():
        return Outcome("", value=described(sources.store.tenant_records.named(given.name)))


@operation("tenants/create", input=TenantFields, arguments=("name",))
def create_tenant(sources: Sources, by: By, given: Given) -> Outcome:
    """Lay something down for a tenant. Keys name it: `keys create --tenant NAME`."""
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


def _edited(change: Any, sources: Sources, by: By, given: Given) -> Outcome:
    """Change what is laid down; `change` is `patched` or `replaced`."""
    fields = _fields(given)
    return edited(sources.store.tenant_records.edit, given["name"], by, lambda tenant: change(tenant, fields))


@operation("tenants/edit", input=TenantFields, arguments=("name",))
def edit_tenant(sources: Sources, by: By, given: Given) -> Outcome:
    """Change what a tenant may use; what is not named stays, and `none` takes a limit back."""
    return _edited(patched, sources, by, given)


@operation("tenants/put", input=TenantFields)
def put_tenant(sources: Sources, by: By, given: Given) -> Outcome:
    """Make a tenant, or lay down its terms."""
    try:
        return _edited(replaced, sources, by, given)
    except NotThere:
        return create_tenant.run(sources, by, given)


@operation("tenants/close", arguments=("name",))
def close_tenant(sources: Sources, by: By, given: OneTenant) -> Outcome:
    """Close a tenant."""
    with refusals():
        return changed(*sources.store.tenant_records.close(given.name))


def _fields(given: Given) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != "name"}
