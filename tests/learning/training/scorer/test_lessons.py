"""What a bank teaches by itself: how much of what a remembered request needed its neighbours say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from learning.training.scorer.lessons import lessons, lessons_of, overlap
from router.examples.features import NAMES, PLACE, Features
from router.examples.rarity import Rarity
from router.plan import Candidate
from store import Store
from tests.router.examples.scoring import example, unit
from tests.store.rows import choice_record, new_example

FEATURES = Features(Rarity())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


def bank(*pairs: tuple[str, str], scopes: str = "") -> list[Candidate]:
    return [
        Candidate(example(n, question=q, answer=a, scope=scopes[n : n + 1]), 0.0, unit(n), None)
        for n, (q, a) in enumerate(pairs)
    ]


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ("card arrival", "card arrival", 1.0),
        ("card arrival", "lost phone", 0.0),
        ("ls -l", "ls -a", 2 / 3),
        ("It is 4.", "it is 4.", 1.0),
        ("", "yes", 0.0),
    ],
)
def test_worth_is_the_share_of_words_in_common(one: str, other: str, share: float) -> None:
    assert overlap(one, other) == pytest.approx(share) == overlap(other, one)


def test_each_example_is_asked_of_the_others_in_its_scope_and_never_of_itself() -> None:
    found = lessons(
        bank(("a", "x"), ("b", "x"), ("c", "y"), ("a", "x"), scopes="ssst"), FEATURES, lambda asked: []
    )
    assert found.features.shape == (6, len(NAMES)) and len(found.overlap) == 6
    assert sorted(found.overlap.tolist()) == [0, 0, 0, 0, 1, 1]
    twins = lessons(bank(("a", "x"), ("a", "x"), scopes="ss"), FEATURES, lambda asked: [])
    assert not len(twins.overlap), "who asks the same again is answered from memory"


def test_what_is_found_by_words_is_among_the_candidates() -> None:
    found = lessons(
        bank(("a", "x"), ("b", "x"), scopes="ss"), FEATURES, lambda asked: [(1 - asked.example.id, 3.0)]
    )
    assert found.features[:, PLACE["words"]].tolist() == [1.0, 1.0]


def test_an_empty_bank_teaches_nothing() -> None:
    assert not len(lessons([], FEATURES, lambda asked: []).overlap)


def test_a_tenants_own_bank_teaches_but_for_what_may_not_be_served(store: Store) -> None:
    tenant = "a1"
    for n in range(6):
        new = new_example(n, tenant)
        held = time.time() + 1000 if n == 5 else 0.0
        store.examples.add(
            replace(
                new,
                question=f"question {n}",
                scope="s",
                vector=unit(n),
                embedding_version="v1",
                served_from_s=held,
            )
        ).result(30)
    store.examples.add(
        replace(new_example(9, "other"), scope="s", vector=unit(9), embedding_version="v1")
    ).result(30)
    latest = replace(choice_record(1), tenant=tenant, embedding_version="v1")
    taught = lessons_of(store, "package", lambda version: "")(tenant, latest)
    assert taught is not None and len(taught.overlap) == 5 * 4


def test_without_the_embedders_vocabulary_there_are_no_lessons(store: Store, tmp_path: Path) -> None:
    missing = lessons_of(store, str(tmp_path / "absent"), lambda version: "")
    assert missing("a1", choice_record(1)) is None
