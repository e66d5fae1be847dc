"""A tenant's stored examples as lessons: its own only, none that is contradicted or waits in quarantine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from learning.training.stored_lessons import lessons_of
from router.examples.features import NAMES, PLACE, VERSION
from store import Store
from store.records import ChoiceRecord
from tests.router.examples.scoring import unit
from tests.store.rows import choice_record, new_example
from understudy.setup.learner import vectors_of

CAPITALS = tuple(f"{name}by" for name in "abcdefghijkl")
DIMENSIONS = 8


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


def remember(store: Store, tenant: str, capitals: Sequence[str], **changes: object) -> None:
    for n, capital in enumerate(capitals):
        for k, form in enumerate(("What is the capital of land {}?", "land {} capital?")):
            new = new_example(1000 * k + n, tenant)
            told = replace(
                new,
                scope="s",
                question=form.format(n),
                answer=f"It is {capital}.",
                vector=unit(n, DIMENSIONS),
                embedding_version="v1",
                neighbours=(),
                **changes,  # type: ignore[arg-type]
            )
            store.examples.add(told).result(30)


def latest(tenant: str) -> ChoiceRecord:
    logged = np.zeros((1, len(NAMES)), np.float32)
    logged[0, PLACE["relative_price"]] = 0.25
    return replace(
        choice_record(1),
        tenant=tenant,
        embedding_version="v1",
        scorer_features_version=VERSION,
        candidate_features=logged,
    )


def test_a_tenant_is_taught_by_its_own_bank_only(store: Store) -> None:
    remember(store, "a", CAPITALS)
    remember(store, "b", CAPITALS[:2])
    teach = lessons_of(store, "package", vectors_of(store, answers=True))
    own, other = teach("a", latest("a")), teach("b", latest("b"))
    near = own[: 2 * len(CAPITALS)]
    assert all(lesson.same.sum() == 1 for lesson in near), "the other way to ask for the same capital"
    assert all(len(lesson.same) == 3 for lesson in other[:4])
    assert {float(lesson.scalars[0, PLACE["relative_price"]]) for lesson in own} == {0.25}
    assert teach("nobody", latest("nobody")) == []


def test_what_waits_in_quarantine_teaches_nothing(store: Store) -> None:
    remember(store, "a", CAPITALS, served_from_s=time.time() + 1000)
    assert lessons_of(store, "package", vectors_of(store, answers=True))("a", latest("a")) == []


def test_an_embedder_that_is_not_there_teaches_nothing(store: Store, tmp_path: Path) -> None:
    remember(store, "a", CAPITALS[:2])
    missing = lessons_of(store, f"folder:{tmp_path / 'none'}", vectors_of(store, answers=True))
    assert missing("a", latest("a")) == []
