"""Opens what a gateway remembers with, in the right order, and closes it in the reverse one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from store.decisions import DecisionLog
from store.examples import ExampleBank
from store.vector_index import IndexFollower, TenantIndexes

from gateway.config import ExactSettings, ExampleSettings, MemorySettings
from router.embedder import Embedder
from store.database import Database
from store.exact_cache import ExactCache
from store.keys import KeyStore
from store.secret import load_or_create_secret, tenant_id

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class ExampleMemory:
    """The bank of examples and what finds them."""

    bank: ExampleBank
    index: TenantIndexes
    follower: IndexFollower
    embedder: Embedder
    neighbours: int
    max_characters: int

    def follow_now(self) -> None:
        """An example was committed: fold it into the index without waiting for the next look."""
        self.follower.notify()


@dataclass(frozen=True, slots=True)
class Memory:
    """Everything of one data folder."""

    db: Database
    keys: KeyStore
    requests: DecisionLog | None
    exact: ExactCache | None
    examples: ExampleMemory | None
    secret: bytes

    @classmethod
    def open(cls, settings: MemorySettings) -> Memory:
        """Open or create the data folder. Blocks. Raises OSError, sqlite3.Error, store.database errors, and
        router.embedder.EmbeddingModelMissing with its remedy."""
        folder = settings.data_dir
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        secret = load_or_create_secret(folder)
        # The embedder comes first: it loads onnxruntime, which must be imported before usearch.
        embedder = _embedder(settings.examples, folder) if settings.examples.enabled else None
        db = Database.open(folder / "understudy.db")
        return cls(
            db,
            KeyStore(db, secret),
            DecisionLog(db) if settings.log_requests else None,
            _exact(settings.exact, db) if settings.exact.enabled else None,
            _examples(settings.examples, db, embedder, folder) if embedder else None,
            secret,
        )

    def tenant_of(self, credential: str) -> str:
        """The tenant of a client that is known by its own credential only."""
        return tenant_id(self.secret, credential)

    def problems(self) -> list[str]:
        """What is not ready yet."""
        if self.examples is not None and not self.examples.follower.caught_up():
            return ["the index of examples is still being read"]
        return []

    def settled(self) -> bool:
        """Whether all writes are committed and the index has followed them."""
        if self.db.pending:
            return False
        return self.examples is None or self.examples.follower.caught_up()

    def close(self) -> None:
        """Stop following, save snapshots, write what is queued, close the database. Blocks."""
        if self.examples is not None:
            self.examples.follower.close()
            self.examples.embedder.close()
        self.db.close()


def _embedder(settings: ExampleSettings, folder: Path) -> Embedder:
    embedding = settings.embedding
    return Embedder.open(
        embedding.source,
        folder / "models",
        deadline_ms=embedding.deadline_ms,
        max_characters=embedding.max_characters,
    )


def _exact(settings: ExactSettings, db: Database) -> ExactCache:
    return ExactCache(
        db,
        ttl_s=settings.ttl_s,
        memory_bytes=int(settings.memory_mib * _MIB),
        disk_bytes=int(settings.disk_mib * _MIB),
        max_entry_bytes=int(settings.max_entry_kib * 1024),
    )


def _examples(settings: ExampleSettings, db: Database, embedder: Embedder, folder: Path) -> ExampleMemory:
    bank = ExampleBank(db)
    index = TenantIndexes(folder / "index", embedder.dimensions, embedder.version)
    follower = IndexFollower(bank, index)
    follower.start()
    return ExampleMemory(
        bank, index, follower, embedder, settings.neighbours, settings.embedding.max_characters
    )
