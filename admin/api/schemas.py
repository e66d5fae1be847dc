"""JSON Schemas (2020-12) of what the admin API takes and gives."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from store.decisions.usage import DIMENSIONS, Amounts
from store.people.described import KeyFields, NewKey, Rotation, TenantFields
from store.records import Key, Tenant
from store.validating import adapter

Schema = dict[str, Any]


def _object(properties: Schema, *, required: tuple[str, ...] = (), closed: bool = True) -> Schema:
    found: Schema = {"type": "object", "properties": properties}
    if required:
        found["required"] = list(required)
    if closed:
        found["additionalProperties"] = False
    return found


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _page(name: str) -> Schema:
    rows = {"type": "array", "items": _ref(name)}
    return _object({"data": rows, "next": _NEXT}, required=("data", "next"))


_TEXT: Schema = {"type": "string"}
_NEXT: Schema = {"type": ["string", "null"], "description": "The `after` of the next page; null on the last."}
_TIME: Schema = {"type": ["string", "null"], "format": "date-time"}
_VIEW: Schema = {"name": _TEXT, "filters": _TEXT, "saved_at_s": {"type": "number"}, "saved_by": _TEXT}
_ROW: Schema = {
    "line": _TEXT,
    **dict.fromkeys((*DIMENSIONS, "key_name", "tenant_name"), _TEXT),
    **{name: {"type": "number"} for name in Amounts._fields},
}


def _of_models() -> Schema:
    """What keys and tenants are told as, what may be changed about them, and all that stands in these."""
    schemas = _definitions("serialization", Key, Tenant)
    schemas |= _definitions("validation", KeyFields, NewKey, Rotation, TenantFields)
    for name in ("Limits", "Retention", "KeyFields", "NewKey", "Rotation", "TenantFields"):
        _take_null(schemas[name])
    for name in ("KeyFields", "TenantFields"):
        # What was read may be put back, with what cannot be changed.
        del schemas[name]["additionalProperties"]
    schemas["Tenant"]["properties"]["closed"] = {"type": "boolean"}
    for name in ("Key", "Tenant"):
        schemas[name]["required"] = list(schemas[name]["properties"])
    secret = {"secret": {"type": "string"}}
    key = schemas["Key"]
    schemas["KeyWithSecret"] = _object({**key["properties"], **secret}, required=(*key["required"], "secret"))
    return schemas


def _definitions(mode: JsonSchemaMode, *kinds: type[Any]) -> Schema:
    inputs = [(kind.__name__, mode, adapter(kind)) for kind in kinds]
    found: Schema = TypeAdapter.json_schemas(inputs, ref_template="#/components/schemas/{model}")[1]["$defs"]
    return found


def _take_null(schema: Schema) -> None:
    """Null takes a value back to its default."""
    for name, field in schema["properties"].items():
        if "anyOf" not in field:
            schema["properties"][name] = {"anyOf": [field, {"type": "null"}]}


SCHEMAS: Schema = {
    **_of_models(),
    "Keys": _page("Key"),
    "Tenants": _page("Tenant"),
    "UsageRow": _object(_ROW, required=("line", *Amounts._fields)),
    "Usage": _object(
        {"data": {"type": "array", "items": _ref("UsageRow")}, "next": _NEXT, "since": _TIME, "until": _TIME},
        required=("data", "next"),
    ),
    "View": _object(_VIEW, required=tuple(_VIEW)),
    "ViewFields": _object({"filters": _TEXT}, required=("filters",)),
    "OneView": _object({"view": _TEXT}, required=("view",)),
    "Views": _page("View"),
    "Problem": _object(
        {
            "type": _TEXT,
            "title": _TEXT,
            "status": {"type": "integer"},
            "code": _TEXT,
            "detail": _TEXT,
        },
        required=("type", "title", "status", "code", "detail"),
    ),
    "Document": {"type": "object"},
}
