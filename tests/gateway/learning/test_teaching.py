"""A teacher reads what the tenant's own store holds, and nothing as late as what decides over its student."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gateway.learning.teaching import Lesson, questions_of, texts_of
from learning.training.scorer.rows import rows_from_log
from router.examples.features import NAMES, VERSION
from router.examples.prior import prior_model
from router.learning.cross_encoder import held_out_from_s
from store.decisions.outcomes import Experience
from store.decisions.texts import RequestTexts
from store.records import Example
from store.store import Memory
from tests.learning.training.reading_world import PLACES, asked, text_outcomes, write_tiny_encoder
from tests.router.examples.scoring import DIMENSIONS, unit
from tests.store.rows import choice_record, new_example, outcome_record
from understudy.settings.memory import AnswerVectorSettings
from understudy.setup.learner import vectors_of

TENANT, MODEL, EMBEDDING = "t1", "gpt-4o", "v1"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory.open(tmp_path / "data")
    yield memory
    memory.close()


def known(store: Memory, number: int, text: str, request_id: str = "") -> Example:
    return store.examples.add(
        replace(
            new_example(number, TENANT),
            question=text,
            answer="It has many.",
            embedded_text=text,
            request_id=request_id,
            vector=unit(number, DIMENSIONS),
            embedding_version=EMBEDDING,
        )
    ).result(30)


def conversation(store: Memory, request_id: str, *turns: str, left_out: int = 0) -> None:
    messages = tuple({"role": "user", "content": turn} for turn in turns)
    store.texts.keep(
        RequestTexts(TENANT, request_id, "", 1.0, turns[-1], "", messages, left_out=left_out)
    ).result(30)


def test_a_requests_text_is_the_banks_or_else_the_logs_where_that_is_whole(store: Memory) -> None:
    known(store, 1, "as the bank has it", "r1")
    conversation(store, "r1", "as the log has it")
    conversation(store, "r2", "population of Eastwick", "and of Westwick?")
    conversation(store, "r3", "and of Harrow?", left_out=3)
    found = questions_of(store, TENANT)(["r1", "r2", "r3", "r4"])
    assert found == {
        "r1": "as the bank has it",
        "r2": "and of Westwick?\n(Earlier: population of Eastwick)",
    }
    assert questions_of(store, "another")(["r1", "r2"]) == {}


def test_texts_are_the_tenants_own(store: Memory) -> None:
    example = known(store, 1, "asked")
    assert texts_of(store, TENANT)([example.id]) == {example.id: ("asked", "It has many.")}
    assert texts_of(store, "another")([example.id]) == {}


def logged(store: Memory, count: int) -> list[Experience]:
    """An example about the same place helps, and no other. Half of the requests are in the bank, half in the log."""
    bank = [known(store, 1000 + n, asked(place)) for n, place in enumerate(PLACES)]
    for i, one in enumerate(text_outcomes(count)):
        ids = tuple(bank[PLACES.index(text.partition("\n")[0])].id for text in one.examples)
        if i % 2:
            known(store, i, one.request, one.row.request_id)
        else:
            conversation(store, one.row.request_id, one.request)
        scored = tuple(dict.fromkeys((*ids, bank[i % len(bank)].id)))
        choice = replace(
            choice_record(i),
            request_id=one.row.request_id,
            tenant=TENANT,
            at_s=one.row.at_s,
            model=MODEL,
            vector=one.row.request,
            embedding_version=EMBEDDING,
            actions=({"engine": "small", "with_examples": True}, {"engine": "large", "with_examples": False}),
            scorer_features_version=VERSION,
            candidates=tuple({"id": id, "similarity": 0.9, "gain": 0.1, "sent": id in ids} for id in scored),
            candidate_features=np.zeros((len(scored), len(NAMES)), np.float32),
        )
        outcome = replace(
            outcome_record(i),
            request_id=one.row.request_id,
            tenant=TENANT,
            at_s=one.row.at_s,
            engine="small",
            example_ids=ids,
            quality=one.row.quality,
            probability=1.0,
        )
        store.choices.record(choice).result(30)
        store.outcomes.note(outcome).result(30)
    return store.outcomes.experiences(TENANT, MODEL, limit=count)


@pytest.mark.train
def test_a_teacher_learns_from_texts_and_its_labels_are_older_than_what_is_held_out(
    store: Memory, tmp_path: Path
) -> None:
    experiences = logged(store, 400)
    assert len(experiences) == 400
    vectors = vectors_of(store, AnswerVectorSettings(enabled=False))(TENANT, EMBEDDING)
    rows = rows_from_log([(e.choice, e.outcomes) for e in experiences], vectors, embedding_version=EMBEDDING)
    said: list[str] = []
    source = f"folder:{write_tiny_encoder(tmp_path)}"
    lesson = Lesson(
        store, TENANT, experiences, vectors, EMBEDDING, prior_model(), source, seed=1, tell=said.append
    )
    labels = lesson.soft_labels(rows)
    before_s = held_out_from_s(rows)
    assert len(labels) > 300
    assert max(label.at_s for label in labels) < before_s
    assert all(0 < label.weight < 1 and 0 <= label.quality <= 1 for label in labels)
    assert any("outcomes with texts" in line for line in said)
    everything = lesson.cross_encoder()
    assert sum(everything.metrics["outcomes"].values()) == len(rows) == 400
