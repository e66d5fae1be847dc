"""Converts a row of the bank to a line of understudy's export, and back."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import asdict
from dataclasses import fields as fields_of
from typing import Any

import orjson

from learning.bank.importing.formats import BadLine
from router.digest import user_scope
from store.examples.vectors import BadVector, checked, from_blob, to_blob
from store.records import Account, Example, NewExample, Restored, Vector

_TENANT = re.compile(r"[0-9a-f]{32}|default")
_TEXTS = ("source_engine", "embedding_version", "contributor")
_COUNTS = ("prompt_tokens", "completion_tokens")
_ACCOUNT = {field.name for field in fields_of(Account)}


def line_of(example: Example, embedded_text: str, vector: Vector | None) -> bytes:
    """One line, newline included. The embedding is base64 of little-endian float16."""
    return orjson.dumps(
        {
            "understudy": 1,
            "tenant": example.tenant,
            "request_id": example.request_id,
            "kind": example.kind,
            "scope": example.scope,
            "question": example.question,
            "answer": example.answer,
            "embedded_text": embedded_text,
            "source_engine": example.source_engine,
            "created_at_s": example.created_at_s,
            "prompt_tokens": example.prompt_tokens,
            "completion_tokens": example.completion_tokens,
            "contributor": example.contributor,
            "pinned": example.pinned,
            "served_from_s": example.served_from_s,
            "account": asdict(Account.of(example)),
            "embedding_version": example.embedding_version,
            "vector": None if vector is None else base64.b64encode(to_blob(vector)).decode(),
        },
        option=orjson.OPT_APPEND_NEWLINE,
    )


def row_of_export(fields: Mapping[str, Any], tenant: str | None) -> Restored:
    """The row of an exported line, under `tenant` if it is given, else under the line's own tenant. Raises BadLine."""
    owner = _tenant_of(fields, tenant)
    _check(fields)
    vector = _vector(fields.get("vector"))
    new = NewExample(
        tenant=owner,
        scope=fields["scope"],
        question=fields["question"],
        answer=fields["answer"],
        embedded_text=fields["embedded_text"],
        vector=vector,
        embedding_version=fields.get("embedding_version", "") if vector is not None else "",
        source_engine=fields.get("source_engine", ""),
        request_id=fields["request_id"],
        prompt_tokens=fields.get("prompt_tokens", 0),
        completion_tokens=fields.get("completion_tokens", 0),
        kind=fields.get("kind", "observed"),
        contributor=fields.get("contributor", ""),
        pinned=fields.get("pinned") is True,
        served_from_s=_number(fields.get("served_from_s") or 0.0, "served_from_s"),
    )
    created_at_s = fields.get("created_at_s")
    return Restored(
        new,
        _account(fields.get("account")),
        None if created_at_s is None else _number(created_at_s, "created_at_s"),
    )


def _tenant_of(fields: Mapping[str, Any], tenant: str | None) -> str:
    if tenant not in (None, fields.get("tenant")) and user_scope(fields["scope"]):
        raise BadLine("it is of one end user of another tenant, and nobody here would be known as that user")
    tenant = tenant or fields.get("tenant")
    if not isinstance(tenant, str) or not _TENANT.fullmatch(tenant):
        raise BadLine("'tenant' must be 32 hexadecimal digits or 'default'")
    return tenant


def _check(fields: Mapping[str, Any]) -> None:
    if fields.get("kind", "observed") not in ("observed", "demonstration"):
        raise BadLine("'kind' must be observed or demonstration")
    for name in _TEXTS:
        if not isinstance(fields.get(name, ""), str):
            raise BadLine(f"{name!r} must be a text")
    for name in _COUNTS:
        value = fields.get(name, 0)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
            raise BadLine(f"{name!r} must be a whole number")


def _account(given: Any) -> Account | None:
    if given is None:
        return None
    if not isinstance(given, dict) or set(given) != _ACCOUNT:
        raise BadLine(f"'account' must hold exactly {', '.join(sorted(_ACCOUNT))}")
    last_used_at_s = given["last_used_at_s"]
    numbers = {
        n: _number(v, f"account.{n}") for n, v in given.items() if n not in ("flagged", "last_used_at_s")
    }
    if numbers["quality_sum"] > numbers["quality_count"]:
        raise BadLine("'account.quality_sum' must be at most its count")
    return Account(
        flagged=given["flagged"] is True,
        merged=int(numbers["merged"]),
        uses=int(numbers["uses"]),
        last_used_at_s=None if last_used_at_s is None else _number(last_used_at_s, "account.last_used_at_s"),
        used=numbers["used"],
        used_at_s=numbers["used_at_s"],
        gain=numbers["gain"],
        gain_at_s=numbers["gain_at_s"],
        quality_sum=numbers["quality_sum"],
        quality_count=int(numbers["quality_count"]),
    )


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise BadLine(f"{name!r} must be a number from 0")
    return float(value)


def _vector(text: Any) -> Vector | None:
    if text is None:
        return None
    try:
        return checked(from_blob(base64.b64decode(text, validate=True)))
    except (TypeError, ValueError, binascii.Error, BadVector) as error:
        raise BadLine("'vector' must be the base64 of float16 numbers of unit length") from error
