"""The routes of the admin API: each is an operation of admin/operations. The OpenAPI document is made from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from admin.operations import keys, tenants, usage, views
from admin.operations.operation import Operation
from admin.roles import Role
from store.validating import adapter

_IN_PATH = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Route:
    """A method and path, and the operation behind it."""

    method: str
    path: str
    """In the syntax of aiohttp's router and of OpenAPI: /api/keys/{id}. Names in it are fields of the input."""
    operation: Operation
    gives: str
    """Name of the schema of the answer."""
    takes: str = ""
    """Name of the schema of the body; empty for none."""
    status: int = 200

    @property
    def name(self) -> str:
        """The operation's id, and the action in the audit log."""
        return self.operation.name

    @property
    def role(self) -> Role:
        """The role that it needs."""
        return self.operation.role

    @property
    def changes(self) -> bool:
        """Whether it changes anything: then it is in the audit log."""
        return self.method != "GET"

    @property
    def in_path(self) -> list[str]:
        """The names in the path."""
        return _IN_PATH.findall(self.path)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The schemas of the parameters of the query, by name."""
        if self.takes or self.changes:
            return {}
        fields = adapter(self.operation.input).json_schema()["properties"]
        return {name: schema for name, schema in fields.items() if name not in self.in_path}


_KEY, _TENANT, _VIEW = "/api/keys/{id}", "/api/tenants/{name}", "/api/views/{view}"
ROUTES: tuple[Route, ...] = (
    Route("GET", "/api/keys", keys.list_keys, "Keys"),
    Route("POST", "/api/keys", keys.create_key, "KeyWithSecret", "NewKey", 201),
    Route("GET", _KEY, keys.show_key, "Key"),
    Route("PUT", _KEY, keys.replace_key, "Key", "KeyFields"),
    Route("PATCH", _KEY, keys.edit_key, "Key", "KeyFields"),
    Route("DELETE", _KEY, keys.revoke_key, "Key"),
    Route("POST", f"{_KEY}/rotate", keys.rotate_key, "KeyWithSecret", "Rotation"),
    Route("GET", "/api/tenants", tenants.list_tenants, "Tenants"),
    Route("GET", _TENANT, tenants.show_tenant, "Tenant"),
    Route("PUT", _TENANT, tenants.put_tenant, "Tenant", "TenantFields"),
    Route("PATCH", _TENANT, tenants.edit_tenant, "Tenant", "TenantFields"),
    Route("DELETE", _TENANT, tenants.close_tenant, "Tenant"),
    Route("GET", "/api/usage", usage.usage, "Usage"),
    Route("GET", "/api/views", views.list_views, "Views"),
    Route("PUT", _VIEW, views.save_view, "View", "ViewFields"),
    Route("DELETE", _VIEW, views.delete_view, "OneView"),
)
