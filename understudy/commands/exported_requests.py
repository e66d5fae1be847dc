"""The log of requests as rows for other programs: JSON lines, or Parquet (the extra `parquet`).

Without content a row holds what was decided and what came of it, and no text of a request, an answer or an error.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from store import Store
from store.records import RequestRecord

Row = dict[str, Any]

_LEFT_OUT = {"exact_key", "trail", "stages_ms"}
_CONTENT = ("messages", "question", "answer")
_AS_JSON = {"messages", "stages_ms", "tried"}
"""Columns that are JSON text in Parquet."""


class ParquetMissing(Exception):
    """What writes Parquet is not installed. The text says what to do about it."""


def rows(
    store: Store, tenant: str | None, *, since_s: float, until_s: float, content: bool
) -> Iterator[list[Row]]:
    """The rows in pages. `content`: with the texts that are kept of each request, private data replaced."""
    tenants, keys = _names(store)
    for page in store.decisions.pages.pages(tenant, since_s=since_s, until_s=until_s):
        found = []
        for record in page:
            row = _row(record)
            row["tenant_name"] = tenants.get(record.tenant, "")
            row["key_name"] = keys.get(record.key_id, "")
            found.append(row | _content(store, record) if content else row)
        yield found


def write_lines(pages: Iterator[list[Row]], file: BinaryIO) -> int:
    """Write one JSON object per line; gives how many."""
    written = 0
    for page in pages:
        for row in page:
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
        written += len(page)
    return written


def write_parquet(pages: Iterator[list[Row]], path: Path, *, content: bool) -> int:
    """Write a Parquet file; gives how many rows. Raises ParquetMissing."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ParquetMissing(
            "Parquet needs pyarrow: pip install 'understudy-gateway[parquet]', or --format jsonl"
        )
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema([(name, _arrow_type(pyarrow, kind)) for name, kind in _columns(content).items()])
    written = 0
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as file:
        for page in pages:
            flat = [{name: _flat(name, value) for name, value in row.items()} for row in page]
            file.write_table(pyarrow.Table.from_pylist(flat, schema))
            written += len(page)
    return written


def _row(record: RequestRecord) -> Row:
    row = {field.name: getattr(record, field.name) for field in fields(record) if field.name not in _LEFT_OUT}
    row["example_ids"] = list(record.example_ids)
    row["started_at"] = datetime.fromtimestamp(record.started_at_s, UTC).isoformat(timespec="milliseconds")
    row["stages_ms"] = _object(record.stages_ms)
    # What an engine said that failed may quote what it was asked.
    row["tried"] = _object(record.trail).get("tried", [])
    return row


def _content(store: Store, record: RequestRecord) -> Row:
    texts = store.decisions.texts.get(record.tenant, record.id)
    if texts is None:
        return dict.fromkeys(_CONTENT)
    return {"messages": list(texts.messages or ()), "question": texts.question, "answer": texts.answer}


def _names(store: Store) -> tuple[dict[str, str], dict[str, str]]:
    keys = store.keys.list()
    return {key.tenant: key.tenant_name for key in keys}, {key.id: key.name for key in keys}


def _object(text: str) -> Row:
    parsed = orjson.loads(text) if text else {}
    return parsed if isinstance(parsed, dict) else {}


def _columns(content: bool) -> Mapping[str, str]:
    """Kind of every column by its name: as the record's field is declared, or JSON text."""
    kinds = {field.name: str(field.type) for field in fields(RequestRecord) if field.name not in _LEFT_OUT}
    more = ("started_at", "stages_ms", "tried", "tenant_name", "key_name", *(_CONTENT if content else ()))
    return kinds | dict.fromkeys(more, "str")


def _arrow_type(pyarrow: Any, kind: str) -> Any:
    return {
        "str": pyarrow.string(),
        "int": pyarrow.int64(),
        "float": pyarrow.float64(),
        "bool": pyarrow.bool_(),
        "tuple[int, ...]": pyarrow.list_(pyarrow.int64()),
    }[kind.removesuffix(" | None")]


def _flat(name: str, value: Any) -> Any:
    return orjson.dumps(value).decode() if name in _AS_JSON and value is not None else value
