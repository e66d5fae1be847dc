"""Examples without a vector of the current version get one in the background, resumably, by one worker at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from learning.bank.reembedding import Reembedder
from store.examples.bank import ExampleBank
from store.jobs.claims import EmbeddingClaims
from store.jobs.leases import Leases
from store.records import NewExample, Vector
from store.sqlite.database import Database
from tests.patience import eventually


class Embedder:
    version = "v2"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_blocking(self, text: str) -> Vector:
        self.texts.append(text)
        return np.array([0.6, 0.8], np.float32)


def fill(db: Database, count: int) -> ExampleBank:
    bank = ExampleBank(db)
    for i in range(count):
        bank.add(NewExample("t", "s", f"q{i}", "a", f"text {i}", None, "v1", "large", f"r{i}")).result()
    return bank


def test_every_example_gets_a_vector_once(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "u.db")
    bank, embedder = fill(db, 120), Embedder()
    worker = Reembedder(bank, embedder, EmbeddingClaims(db), Leases(db).lease("reembed"))
    worker.start()
    assert eventually(lambda: worker.done == 120)
    worker.stop()
    assert sorted(embedder.texts) == sorted(f"text {i}" for i in range(120))
    assert not bank.without_vector("v2", 10, 0)
    assert all(
        change.vector is not None and change.embedding_version == "v2" for change in bank.tail(0, 1000)
    )
    db.close()


def test_it_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "u.db")
    bank, embedder = fill(db, 60), Embedder()
    first = Reembedder(bank, embedder, EmbeddingClaims(db), Leases(db).lease("reembed"))
    first.start()
    assert eventually(lambda: first.done >= 5)
    first.stop()
    second = Reembedder(bank, embedder, EmbeddingClaims(db), Leases(db).lease("reembed"))
    second.start()
    assert eventually(lambda: first.done + second.done == 60)
    second.stop()
    assert len(embedder.texts) == 60, "nothing is embedded twice"
    db.close()


def test_several_that_claim_embed_nothing_twice(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "u.db")
    bank, embedder = fill(db, 120), Embedder()
    workers = [Reembedder(bank, embedder, EmbeddingClaims(db), None) for _ in range(2)]
    for worker in workers:
        worker.start()
    assert eventually(lambda: sum(worker.done for worker in workers) == 120)
    for worker in workers:
        worker.stop()
    assert len(embedder.texts) == 120
    db.close()
