"""Examples that came before a template was learnt are embedded anew, without it; a new process learns from the bank."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from learning.bank import template_follower
from learning.bank.template_follower import TemplateFollower
from router.embedding.templates import Templates
from store.examples.bank import ExampleBank
from store.records import NewExample, Vector
from store.sqlite.database import Database
from tests.patience import eventually
from tests.prompts import rules

HEAD = rules(400)


class Embedder:
    version = "v2"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_blocking(self, text: str) -> Vector:
        self.texts.append(text)
        return np.array([0.6, 0.8], np.float32)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_follower, "_GATHER_S", 0.01)


def fill(db: Database, count: int, embedded: str = "") -> ExampleBank:
    bank = ExampleBank(db)
    for i in range(count):
        text = f"{HEAD}\nWhat is number {i}?"
        new = NewExample("t", "s", text, "a", embedded or text, None, "v1", "large", f"r{i}")
        bank.add(new).result()
    return bank


def test_a_new_process_learns_from_the_bank_and_embeds_what_is_asked(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "u.db")
    bank, embedder, templates = fill(db, 9), Embedder(), Templates()
    follower = TemplateFollower(bank, embedder, templates)
    follower.start()
    assert eventually(lambda: follower.done == 9)
    follower.stop()
    asked = {f"What is number {i}?" for i in range(9)}
    assert {e.embedded_text for e in bank.newest("t", 100)} == asked == set(embedder.texts)
    assert all(e.question.startswith(HEAD) and e.embedding_version == "v2" for e in bank.newest("t", 100))
    assert templates.digest("t", "s", f"{HEAD}\nAnd this?").text == "And this?"
    # Texts and vector count against the tenant's cap.
    (one,) = bank.by_ids("t", [1])
    assert one.size_bytes == 1024 + 2 * 2 + len(one.question) + len("a") + len(one.embedded_text)
    db.close()


def test_what_another_worker_shortened_further_is_left(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "u.db")
    bank, embedder = fill(db, 9, embedded="shorter"), Embedder()
    follower = TemplateFollower(bank, embedder, templates := Templates())
    follower.start()
    assert eventually(lambda: templates.digest("t", "s", f"{HEAD}\nAnd this?").left_out)
    assert eventually(lambda: not templates.changed.is_set())
    follower.stop()
    assert follower.done == 0 and {e.embedded_text for e in bank.newest("t", 100)} == {"shorter"}
    db.close()


def test_an_example_that_was_rewritten_meanwhile_keeps_its_new_text(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "u.db")
    bank = fill(db, 1)
    (read,) = bank.newest("t", 1)
    bank.rewrite(
        "t", read.id, question="Q", answer="A", embedded_text="Q", vector=None, embedding_version="v1"
    ).result()
    vector = np.array([0.6, 0.8], np.float32)
    assert not bank.set_vector(read.id, vector, "v2", instead=(read.embedded_text, "other")).result()
    assert bank.newest("t", 1)[0].embedded_text == "Q"
    db.close()
