"""Where examples stand on a flat map of their tenant's bank. Derived from their vectors, and kept until it is drawn anew."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from store.database import Connection, Database


@dataclass(frozen=True, slots=True)
class Place:
    """One example on the map, with what it may be coloured by."""

    example_id: int
    x: float
    y: float
    engine: str
    created_at_s: float
    gain: float
    gain_at_s: float
    question: str
    """Its beginning."""


class ExamplePlaces:
    """Reads the vectors to be mapped, and keeps the map that was made of them."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def vectors(self, tenant: str, limit: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """(ids [n], vectors [n, dimensions]) of the tenant's latest examples, of the embedding most of them have."""
        rows = (
            self._db.read()
            .execute(
                "SELECT id, vector, embedding_version FROM examples WHERE tenant = ? AND vector IS NOT NULL"
                " ORDER BY seq DESC LIMIT ?",
                (tenant, limit),
            )
            .fetchall()
        )
        versions = [version for _, _, version in rows]
        usual = max(set(versions), key=versions.count, default="")
        own = [(id, blob) for id, blob, version in rows if version == usual]
        ids = np.array([id for id, _ in own], dtype=np.int64)
        flat = np.frombuffer(b"".join(blob for _, blob in own), "<f2").astype(np.float32)
        return ids, flat.reshape(len(own), -1) if own else flat.reshape(0, 0)

    def put(
        self, tenant: str, ids: Sequence[int], places: npt.NDArray[np.float64], at_s: float
    ) -> Future[int]:
        """Put a new map in the old one's place; gives how many of the examples are still there. `places` is [n, 2]."""
        rows = [
            (id, tenant, float(x), float(y), at_s) for id, (x, y) in zip(ids, places.tolist(), strict=True)
        ]

        def write(connection: Connection) -> int:
            self._db.hold(connection, "example_places")
            connection.execute("DELETE FROM example_places WHERE tenant = ?", (tenant,))
            # What was deleted while the map was drawn is not on it.
            return connection.executemany(
                "INSERT INTO example_places SELECT ?1, ?2, ?3, ?4, ?5"
                " WHERE EXISTS (SELECT 1 FROM examples WHERE id = ?1 AND tenant = ?2)",
                rows,
            ).rowcount

        return self._db.write(write)

    def of(self, tenant: str, limit: int, characters: int = 90) -> list[Place]:
        """The tenant's map: at most `limit` of its examples, the latest."""
        rows = self._db.read().execute(
            "SELECT p.example_id, p.x, p.y, e.source_engine, e.created_at_s, a.gain, a.gain_at_s,"
            " substr(e.question, 1, :characters) FROM example_places p JOIN examples e ON e.id = p.example_id"
            " JOIN example_accounts a ON a.id = p.example_id WHERE p.tenant = :tenant"
            " ORDER BY p.example_id DESC LIMIT :limit",
            {"tenant": tenant, "limit": limit, "characters": characters},
        )
        return [Place(*row) for row in rows.fetchall()]

    def made_at_s(self, tenant: str) -> tuple[float, int] | None:
        """When the tenant's map was made, and how many examples are on it; None without one."""
        row = (
            self._db.read()
            .execute("SELECT max(made_at_s), count(*) FROM example_places WHERE tenant = ?", (tenant,))
            .fetchone()
        )
        return None if row[0] is None else (float(row[0]), int(row[1]))
