"""A row of the bank as a line of our own export, and back."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

import orjson

from gateway.import_formats import BadLine
from store.records import Example, NewExample, Vector
from store.vectors import BadVector, checked, from_blob, to_blob

_TENANT = re.compile(r"[0-9a-f]{32}|default")
_TEXTS = ("source_engine", "embedding_version", "contributor")
_COUNTS = ("prompt_tokens", "completion_tokens")


def line_of(example: Example, embedded_text: str, vector: Vector | None) -> bytes:
    """One line, newline included. The vector is base64 of little-endian float16."""
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
            "quality": example.quality,
            "embedding_version": example.embedding_version,
            "vector": None if vector is None else base64.b64encode(to_blob(vector)).decode(),
        },
        option=orjson.OPT_APPEND_NEWLINE,
    )


def row_of_export(fields: Mapping[str, Any], tenant: str | None) -> NewExample:
    """The row a line stands for, under `tenant` if it is given, else where the line says. Raises BadLine."""
    tenant = tenant or fields.get("tenant")
    if not isinstance(tenant, str) or not _TENANT.fullmatch(tenant):
        raise BadLine("'tenant' must be 32 hexadecimal digits or 'default'")
    kind = fields.get("kind", "observed")
    if kind not in ("observed", "demonstration"):
        raise BadLine("'kind' must be observed or demonstration")
    for name in _TEXTS:
        if not isinstance(fields.get(name, ""), str):
            raise BadLine(f"{name!r} must be a text")
    for name in _COUNTS:
        value = fields.get(name, 0)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
            raise BadLine(f"{name!r} must be a whole number")
    quality = fields.get("quality")
    if quality is not None and (not isinstance(quality, int | float) or not 0 <= quality <= 1):
        raise BadLine("'quality' must be 0 to 1, or null")
    vector = _vector(fields.get("vector"))
    return NewExample(
        tenant=tenant,
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
        kind="demonstration" if kind == "demonstration" else "observed",
        contributor=fields.get("contributor", ""),
        pinned=fields.get("pinned") is True,
        served_from_s=float(fields.get("served_from_s") or 0.0),
        quality=None if quality is None else float(quality),
    )


def _vector(text: Any) -> Vector | None:
    if text is None:
        return None
    try:
        return checked(from_blob(base64.b64decode(text, validate=True)))
    except (TypeError, ValueError, binascii.Error, BadVector) as error:
        raise BadLine("'vector' must be the base64 of float16 numbers of unit length") from error
