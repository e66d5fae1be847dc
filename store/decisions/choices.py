"""What the router weighed, one row per request, kept so that it can be learnt from and other policies evaluated on it.

Holds no text. The request's vector is kept as 16-bit floats, the candidates' features as 32-bit ones, the rest as JSON.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import orjson

from store.database import Connection, Database
from store.examples.vectors import from_blob, to_blob
from store.inserting import Insert
from store.records import ChoiceRecord
from store.tenant_scope import ALL, TenantScope

_COLUMNS = (
    "tenant",
    "request_id",
    "contributor",
    "at_s",
    "model",
    "completion_id",
    "engine",
    "embedding_version",
)
_APART = frozenset({*_COLUMNS, "vector", "candidate_features"})
_AS_JSON = tuple(field.name for field in dataclasses.fields(ChoiceRecord) if field.name not in _APART)
_DEFLATE_LEVEL = 1


class Choices:
    """One row per request that the router decided. Every look-up names a tenant; scans are for the learner."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def record(self, record: ChoiceRecord) -> Future[None]:
        """Keep one; a second one of the same request is ignored.

        Raises ValueError (BadVector among them) for what is not finite or has another shape, and StoreBusy.
        """
        row = _as_row(record)

        def insert(connection: Connection) -> None:
            self._db.append(connection, _INSERT, row)

        return self._db.write(insert, patient=True)

    def get(self, tenant: str, request_id: str) -> ChoiceRecord | None:
        """The choice made for a request of the tenant's, or None."""
        return self._one("tenant = ? AND request_id = ?", tenant, request_id)

    def by_completion(self, tenant: str, completion_id: str) -> ChoiceRecord | None:
        """The choice behind the answer with this `id`; the latest where engines gave an id twice, None for none."""
        if not completion_id:
            return None
        return self._one("tenant = ? AND completion_id = ? AND completion_id <> ''", tenant, completion_id)

    def after(
        self, row_id: int, limit: int = 1000, *, tenant: str | None = None, model: str | None = None
    ) -> list[tuple[int, ChoiceRecord]]:
        """The next choices in the order in which they were written, each with its place; of one tenant or model if named."""
        condition = "row_id > ? AND row_id <= ?"
        values: tuple[object, ...] = (row_id, self._db.settled("choices"))
        for column, value in (("tenant", tenant), ("model", model)):
            if value is not None:
                condition += f" AND {column} = ?"
                values += (value,)
        return rows_where(self._db, condition + " ORDER BY row_id LIMIT ?", (*values, limit))

    def engines_before(self, row_id: int, limit: int, *, tenant: str, model: str) -> list[tuple[float, str]]:
        """(when it was decided, who answered) of the last choices before this one, oldest first. Reads no JSON."""
        rows = self._db.read().execute(
            "SELECT at_s, engine FROM choices WHERE tenant = ? AND model = ? AND row_id < ?"
            " ORDER BY row_id DESC LIMIT ?",
            (tenant, model, row_id, limit),
        )
        return rows.fetchall()[::-1]

    def count(self, tenant: str, model: str) -> int:
        """How many choices of a tenant are kept for a served model."""
        row: tuple[int] = (
            self._db.read()
            .execute("SELECT count(*) FROM choices WHERE tenant = ? AND model = ?", (tenant, model))
            .fetchone()
        )
        return row[0]

    def slots(self) -> list[tuple[str, str]]:
        """Every (tenant, served model) of which there is a choice, in order."""
        rows = self._db.read().execute("SELECT DISTINCT tenant, model FROM choices ORDER BY tenant, model")
        return [(tenant, model) for tenant, model in rows.fetchall()]

    def trim(self, before_s: float, limit: int = 5_000, *, tenants: TenantScope = ALL) -> Future[int]:
        """Delete these tenants' choices older than `before_s` with their outcomes, the oldest first; gives how many choices.

        At most `limit` at once, so that the writer stays free for others: call again while it gives `limit`.
        """

        def delete(connection: Connection) -> int:
            return connection.execute(
                "DELETE FROM choices WHERE row_id IN (SELECT row_id FROM choices WHERE at_s < ?"  # noqa: S608
                f"{tenants.condition} ORDER BY at_s LIMIT ?)",
                (before_s, *tenants.values, limit),
            ).rowcount

        return self._db.write(delete)

    def forget_tenant(self, tenant: str) -> Future[int]:
        """Delete every choice of a tenant, and their outcomes; gives how many choices."""
        return self._delete("DELETE FROM choices WHERE tenant = ?", tenant)

    def forget_contributor(self, tenant: str, contributor: str) -> Future[int]:
        """Delete the choices made for one contributor's requests, and their outcomes; gives how many choices.

        Raises ValueError for an empty contributor, which would mean everybody unknown.
        """
        if not contributor:
            raise ValueError("an empty contributor is nobody: name one, or forget the tenant")
        return self._delete(
            "DELETE FROM choices WHERE tenant = ? AND contributor = ? AND contributor <> ''",
            tenant,
            contributor,
        )

    def _delete(self, statement: str, *values: str) -> Future[int]:
        return self._db.write(
            lambda connection: connection.execute(statement, values).rowcount,
            after=lambda _: self._db.scrub_soon(),
        )

    def _one(self, condition: str, *values: str) -> ChoiceRecord | None:
        found = rows_where(self._db, condition + " ORDER BY row_id DESC LIMIT 1", values)
        return found[0][1] if found else None


def rows_where(db: Database, condition: str, values: Sequence[object]) -> list[tuple[int, ChoiceRecord]]:
    """Choices by a condition of our own making, for this room's readers, each with its place."""
    rows = db.read().execute(f"SELECT {_SELECTED} FROM choices WHERE {condition}", values)  # noqa: S608
    return [(row[0], _as_record(row)) for row in rows.fetchall()]


_SELECTED = "row_id, " + ", ".join(_COLUMNS) + ", vector, candidate_features, features_per_candidate, record"
_INSERT = Insert("choices", _SELECTED.removeprefix("row_id, "), key="tenant, request_id")


def _as_row(record: ChoiceRecord) -> tuple[object, ...]:
    rest = {name: getattr(record, name) for name in _AS_JSON}
    rest["context"] = dict(record.context)
    # The release before this one reads the row, too: it knows no field of this name, and looks at none in there.
    rest["noted"] = {**record.noted, "settings": dict(rest.pop("settings"))}
    written = orjson.dumps(rest, option=orjson.OPT_SERIALIZE_NUMPY)
    dicts = (rest, rest["context"], rest["noted"], *record.actions, *record.candidates)
    if written.count(b"null") != sum([list(each.values()).count(None) for each in dicts]):
        # There is a null that nobody wrote, or maybe just a word.
        _refuse_infinite(rest)
    if not 0.0 <= record.probability <= 1.0:
        raise ValueError(f"a probability of {record.probability}: between 0 and 1 is right")
    features, width = None, 0
    if record.candidate_features is not None:
        array = np.asarray(record.candidate_features, dtype="<f4")
        if array.ndim != 2 or len(array) != len(record.candidates) or not np.isfinite(array).all():
            raise ValueError(
                f"features of shape {array.shape} for {len(record.candidates)} candidates:"
                " one finite row per candidate is right"
            )
        features, width = array.tobytes(), array.shape[1]
    return (
        *(getattr(record, name) for name in _COLUMNS),
        None if record.vector is None else to_blob(record.vector),
        features,
        width,
        zlib.compress(written, _DEFLATE_LEVEL),
    )


def _as_record(row: tuple[Any, ...]) -> ChoiceRecord:
    vector, features, width, rest = row[len(_COLUMNS) + 1 :]
    fields: dict[str, Any] = dict(zip(_COLUMNS, row[1:], strict=False)) | orjson.loads(zlib.decompress(rest))
    for name in ("example_ids", "actions", "candidates"):
        fields[name] = tuple(fields[name])
    fields["settings"] = fields.get("noted", {}).pop("settings", {})
    fields["vector"] = None if vector is None else from_blob(vector)
    fields["candidate_features"] = (
        None if features is None else np.frombuffer(features, dtype="<f4").reshape(-1, width or 1)
    )
    return ChoiceRecord(**fields)


def _refuse_infinite(rest: dict[str, Any]) -> None:
    """Raises ValueError. JSON has no NaN: it would come back as nothing at all, and teach a learner nonsense."""
    for name, value in rest.items():
        if not _is_finite(value):
            raise ValueError(f"a choice with NaN or infinity in its {name}: finite numbers are right")


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_finite, value))
    return not isinstance(value, np.floating) or bool(np.isfinite(value))
