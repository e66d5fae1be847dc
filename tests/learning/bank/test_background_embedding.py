"""Questions and answers get a vector in the background: all of them, once, by one worker at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from learning.bank.background_embedding import (
    AnswerEmbedder,
    BackgroundEmbedder,
    QuestionEmbedder,
    version_of,
)
from store.examples.answer_vectors import AnswerVectors
from store.examples.bank import ExampleBank
from store.jobs.claims import EmbeddingClaims
from store.jobs.leases import Leases
from store.records import NewExample, Vector
from store.sqlite.database import Database
from tests.patience import eventually

VERSION = "v2/answers:12c"


class Embedder:
    version = "v2"

    def __init__(self, *, takes_s: float = 0.0, refuses: str = "") -> None:
        self.texts: list[str] = []
        self._takes_s = takes_s
        self._refuses = refuses
        self.at: list[float] = []

    def embed_blocking(self, text: str) -> Vector:
        self.at.append(time.perf_counter())
        if text == self._refuses:
            raise ValueError("no direction")
        time.sleep(self._takes_s)
        self.texts.append(text)
        return np.array([0.6, 0.8], np.float32)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    db = Database.open(tmp_path / "u.db")
    yield db
    db.close()


def fill(db: Database, count: int) -> AnswerVectors:
    bank = ExampleBank(db)
    for i in range(count):
        bank.add(
            NewExample("t", "s", f"q{i}", f"answer {i} is long", f"text {i}", None, "v1", "large", f"r{i}")
        ).result()
    return AnswerVectors(db)


def worker(
    answers: AnswerVectors,
    embedder: Embedder,
    db: Database,
    share: float = 1.0,
    *,
    kind: str = "answer",
    leased: bool = True,
) -> BackgroundEmbedder[Any]:
    claims, lease = EmbeddingClaims(db), Leases(db).lease(kind) if leased else None
    if kind == "question":
        return QuestionEmbedder(ExampleBank(db), embedder, claims, lease)
    return AnswerEmbedder(answers, embedder, claims, lease, max_characters=12, share=share)


def test_every_question_gets_a_vector_once(store: Database) -> None:
    fill(store, 120)
    bank, embedder = ExampleBank(store), Embedder()
    one = QuestionEmbedder(bank, embedder, EmbeddingClaims(store), Leases(store).lease("reembed"))
    one.start()
    assert eventually(lambda: one.done == 120)
    one.stop()
    assert sorted(embedder.texts) == sorted(f"text {i}" for i in range(120))
    assert not bank.without_vector("v2", 10, 0)
    assert all(
        change.vector is not None and change.embedding_version == "v2" for change in bank.tail(0, 1000)
    )


def test_every_answer_gets_a_vector_of_its_beginning_once(store: Database) -> None:
    answers, embedder = fill(store, 120), Embedder()
    one = worker(answers, embedder, store)
    one.start()
    assert eventually(lambda: one.done == 120)
    one.stop()
    assert sorted(embedder.texts) == sorted(f"answer {i} is long"[:12] for i in range(120))
    assert one.version == version_of(embedder.version, 12) == VERSION
    assert not answers.missing(VERSION)
    assert len(answers.of("t", list(range(1, 121)), VERSION)) == 120


def test_nothing_is_done_unless_it_is_started(store: Database) -> None:
    answers, embedder = fill(store, 3), Embedder()
    one = worker(answers, embedder, store)
    one.stop()
    assert not embedder.texts and len(answers.missing(VERSION)) == 3


@pytest.mark.parametrize("kind", ["question", "answer"])
def test_it_goes_on_where_it_was_stopped(store: Database, kind: str) -> None:
    answers, embedder = fill(store, 60), Embedder()
    first = worker(answers, embedder, store, kind=kind)
    first.start()
    assert eventually(lambda: first.done >= 5)
    first.stop()
    second = worker(answers, embedder, store, kind=kind)
    second.start()
    assert eventually(lambda: first.done + second.done == 60)
    second.stop()
    assert len(embedder.texts) == 60, "nothing is embedded twice"


@pytest.mark.parametrize("kind", ["question", "answer"])
@pytest.mark.parametrize("leased", [True, False])
def test_two_workers_do_not_do_the_same_work(store: Database, kind: str, leased: bool) -> None:
    answers, embedder = fill(store, 120), Embedder()
    workers = [worker(answers, embedder, store, kind=kind, leased=leased) for _ in range(2)]
    for one in workers:
        one.start()
    assert eventually(lambda: sum(one.done for one in workers) == 120)
    for one in workers:
        one.stop()
    assert len(embedder.texts) == 120


def test_it_leaves_the_embedder_to_requests_most_of_the_time(store: Database) -> None:
    answers, embedder = fill(store, 6), Embedder(takes_s=0.01)
    one = worker(answers, embedder, store, share=0.2)
    one.start()
    assert eventually(lambda: one.done == 6)
    one.stop()
    # Sleeping is never shorter than asked for: each answer's 10 ms are followed by at least 40.
    assert all(b - a >= 0.05 for a, b in zip(embedder.at, embedder.at[1:], strict=False))


def test_an_answer_that_cannot_be_embedded_does_not_hold_up_the_others(store: Database) -> None:
    answers, embedder = fill(store, 10), Embedder(refuses="answer 4 is ")
    one = worker(answers, embedder, store)
    one.start()
    assert eventually(lambda: one.done == 9)
    one.stop()
    assert [w.answer for w in answers.missing(VERSION)] == ["answer 4 is long"]


def test_a_share_that_is_none_is_refused(store: Database) -> None:
    for share in (0.0, -1.0, 1.5):
        with pytest.raises(ValueError, match="share"):
            worker(AnswerVectors(store), Embedder(), store, share)
