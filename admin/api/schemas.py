"""JSON Schemas (2020-12) of what the admin API takes and gives."""

from __future__ import annotations

from typing import Any

from store.decisions.usage import DIMENSIONS, Amounts
from store.people.limits import MOST_COUNT, MOST_USD, PERIODS

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
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 200}
_COUNT: Schema = {"type": ["integer", "null"], "minimum": 1, "maximum": MOST_COUNT}
_DAYS: Schema = {"type": ["number", "null"], "exclusiveMinimum": 0}
_GLOBS: Schema = {
    "type": ["array", "null"],
    "maxItems": 200,
    "items": {"type": "string", "minLength": 1, "maxLength": 200},
}

_LIMITS: Schema = {
    "models": {**_GLOBS, "description": "Globs of model names, such as gpt-4*; without any: all."},
    "endpoints": {
        **_GLOBS,
        "description": "Globs of paths below the prefix; without any: the stateless ones.",
    },
    "requests_per_minute": _COUNT,
    "tokens_per_minute": _COUNT,
    "concurrency": _COUNT,
    "max_output_tokens": _COUNT,
    "budgets": {"type": ["array", "null"], "items": _ref("Budget")},
    "time_zone": {"type": ["string", "null"], "description": "In which a budget's day begins: an IANA name."},
    "allow_unpriced": {"type": ["boolean", "null"]},
    "components": {**_GLOBS, "description": "Globs of components of workflows; without any: all."},
}
_TERMS: Schema = {
    "limits": _ref("Limits"),
    "each_user": _ref("Limits"),
    "expires_at": _TIME,
    "partition": {"type": ["string", "null"], "enum": ["user", "tenant", None]},
    "users_required": {"type": ["boolean", "null"]},
}
_KEPT: Schema = _object({"texts_days": _DAYS, "rows_days": _DAYS, "examples_days": _DAYS})
_SOURCE: Schema = {"type": "string", "enum": ["cli", "config", "api"]}
_READ_ONLY: Schema = {"id": _TEXT, "source": _SOURCE, "created_at": _TIME}
_KEY: Schema = {
    **_READ_ONLY,
    "name": _NAME,
    **_TERMS,
    "tenant": _NAME,
    "tenant_id": _TEXT,
    "prefix": {"type": "string", "description": "How its secret begins."},
    "revoked_at": _TIME,
    "rotated_until": {
        **_TIME,
        "description": "Until when the secret before the last rotation is still taken.",
    },
}
_TENANT: Schema = {
    **_READ_ONLY,
    "name": _NAME,
    **_TERMS,
    "region": _TEXT,
    "retention": _KEPT,
    "closed": {"type": "boolean"},
    "closed_at": _TIME,
}
_SECRET: Schema = {"type": "string", "minLength": 16, "maxLength": 512}
_ROW: Schema = {
    "line": _TEXT,
    **dict.fromkeys((*DIMENSIONS, "key_name", "tenant_name"), _TEXT),
    **{name: {"type": "number"} for name in Amounts._fields},
}

SCHEMAS: Schema = {
    "Budget": _object(
        {
            "usd": {"type": "number", "minimum": 0, "maximum": MOST_USD},
            "per": {"type": "string", "enum": list(PERIODS)},
        },
        required=("usd", "per"),
    ),
    "Limits": _object(_LIMITS),
    "Key": _object(_KEY, required=tuple(_KEY)),
    "KeyWithSecret": _object({**_KEY, "secret": _SECRET}, required=(*_KEY, "secret")),
    "KeyFields": _object({"name": _NAME, **_TERMS}, closed=False),
    "NewKey": _object(
        {"tenant": {**_NAME, "default": "default"}, "secret": _SECRET, "name": _NAME, **_TERMS}
    ),
    "Rotation": _object({"grace_s": {"type": "number", "minimum": 0, "default": 0}, "secret": _SECRET}),
    "Keys": _page("Key"),
    "Tenant": _object(_TENANT, required=tuple(_TENANT)),
    "TenantFields": _object(
        {**_TERMS, "region": _TEXT, "retention": _KEPT, "closed": {"type": "boolean"}}, closed=False
    ),
    "Tenants": _page("Tenant"),
    "UsageRow": _object(_ROW, required=("line", *Amounts._fields)),
    "Usage": _object(
        {"data": {"type": "array", "items": _ref("UsageRow")}, "next": _NEXT, "since": _TIME, "until": _TIME},
        required=("data", "next"),
    ),
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
