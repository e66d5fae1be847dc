"""Operations on what is laid down for tenants."""

from __future__ import annotations

from collections.abc import Callable

from admin.api.route import PAGING, Answer, Call, Route
from admin.roles import Role
from store.people.described import TenantFields, changes, described, patched, replaced
from store.people.tenants import NoSuchTenantRecord, TenantExists
from store.records import Tenant
from store.validating import read, without_nulls


def list_tenants(call: Call) -> Answer:
    """What is laid down, by name."""
    after, limit = call.page()
    found = [one for one in call.sources.store.tenant_records.list() if one.name > after]
    shown = [described(one) for one in found[:limit]]
    return Answer({"data": shown, "next": found[limit - 1].name if len(found) > limit else None})


def show_tenant(call: Call) -> Answer:
    """One tenant."""
    return Answer(described(call.sources.store.tenant_records.named(call.path["name"])))


def put_tenant(call: Call) -> Answer:
    """Lays something down for a tenant; what is not named becomes as in a new one."""
    try:
        return _edited(call, lambda tenant: replaced(tenant, call.body))
    except NoSuchTenantRecord:
        pass
    try:
        return _created(call)
    except TenantExists:
        # Somebody else was faster.
        return _edited(call, lambda tenant: replaced(tenant, call.body))


def patch_tenant(call: Call) -> Answer:
    """Changes some of what is laid down."""
    return _edited(call, lambda tenant: patched(tenant, call.body))


def close_tenant(call: Call) -> Answer:
    """Has its keys refused until it is opened again; once more changes nothing."""
    before, after = call.sources.store.tenant_records.close(call.path["name"])
    return Answer(described(after), target=after.id, detail=changes(before, after))


def _created(call: Call) -> Answer:
    name = call.path["name"]
    body = {field: value for field, value in call.body.items() if (field, value) != ("name", name)}
    new = read(TenantFields, without_nulls(body))
    records = call.sources.store.tenant_records
    made = records.create(name, new, region=new.region, retention=new.retention, source="api")
    if new.closed:
        made = records.close(name)[1]
    return Answer(described(made), 201, made.id, changes(None, made))


def _edited(call: Call, change: Callable[[Tenant], Tenant]) -> Answer:
    before, after = call.sources.store.tenant_records.edit(call.path["name"], change)
    return Answer(described(after), target=after.id, detail=changes(before, after))


_ONE = "/api/tenants/{name}"
_CHANGE = Role.OPERATOR
ROUTES = (
    Route(
        "GET",
        "/api/tenants",
        "tenants/list",
        "List tenants",
        list_tenants,
        gives="Tenants",
        parameters=PAGING,
    ),
    Route("GET", _ONE, "tenants/show", "Show a tenant", show_tenant, gives="Tenant"),
    Route(
        "PUT", _ONE, "tenants/put", "Make or lay down a tenant", put_tenant, _CHANGE, "TenantFields", "Tenant"
    ),
    Route("PATCH", _ONE, "tenants/edit", "Change a tenant", patch_tenant, _CHANGE, "TenantFields", "Tenant"),
    Route("DELETE", _ONE, "tenants/close", "Close a tenant", close_tenant, _CHANGE, gives="Tenant"),
)
