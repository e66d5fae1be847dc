"""From rows of a real store to artifacts that open: what was never weighed, or is of another embedder, is left out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from learning.learned.learner import Incumbent
from learning.training.scorer.rows import AnswersOf
from learning.training.trainers import BanditTrainer, ScorerTrainer
from router.choosing import features
from router.choosing.bandit import Option, Scene
from router.choosing.bandit_vw import VowpalBandit
from router.examples import features as scorer_features
from router.examples.features import NAMES, PLACE
from router.examples.prior import prior_model
from router.examples.scorer import Scorer
from store import Store
from store.decisions.outcomes import Experience
from store.records import ChoiceRecord
from tests.router.examples.scoring import rarity, unit
from tests.store.rows import choice_record, outcome_record

WAYS = (("small", False), ("small", True), ("large", False))
DIMENSIONS = 16
HALF_LIFE_S = 86_400.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


def action(engine: str, with_examples: bool) -> Mapping[str, float]:
    large = engine == "large"
    return features.action_features(
        is_reference=large,
        rank=float(large),
        with_examples=with_examples,
        relative_cost=1.0 if large else 0.1,
        relative_latency=1.0,
        utilisation=0.0,
        healthy=True,
    )


def context() -> Mapping[str, float]:
    return features.context_features(
        features.Request("What is the population of Eastwick?"),
        features.Examples(count=2, tokens=100, gain=0.1),
        quality_alone=0.5,
        quality_with=0.6,
        weights=(0.9, 0.1, 0.0),
    )


def weighed(number: int, chosen: int, **changes: Any) -> ChoiceRecord:
    engine, with_examples = WAYS[chosen]
    fields: dict[str, Any] = {
        "at_s": time.time() - 1000 + number,
        "vector": unit(number % 5, DIMENSIONS),
        "embedding_version": "mini@1",
        "engine": engine,
        "example_ids": (1, 2) if with_examples else (),
        "chosen": chosen,
        "probability": 1 / 3,
        "context": context(),
        "features_version": features.VERSION,
        "actions": tuple({"engine": e, "with_examples": x, "features": action(e, x)} for e, x in WAYS),
        "examples_explored": "",
        "examples_probability": 1.0,
        "scorer_features_version": scorer_features.VERSION,
    }
    return choice_record(number, **(fields | changes))


def happened(store: Store, count: int, quality: Mapping[str, float], **changes: Any) -> list[Experience]:
    """So many requests, the ways to answer taking turns, each answer as good as `quality` says of its engine."""
    first = store.decisions.choices.count("a1", "gpt-4o")
    for number in range(first, first + count):
        choice = weighed(number, number % len(WAYS), **changes)
        store.decisions.choices.record(choice)
        store.outcomes.note(
            outcome_record(
                number,
                at_s=choice.at_s + 1,
                engine=choice.engine,
                example_ids=choice.example_ids,
                quality=quality[choice.engine],
                probability=1.0,
            )
        ).result(30)
    return store.outcomes.experiences("a1", "gpt-4o")


def expected(data: bytes) -> list[float]:
    options = [Option(engine, examples, action(engine, examples)) for engine, examples in WAYS]
    scene = Scene(unit(1, DIMENSIONS), context(), options)
    return list(VowpalBandit.load(data).estimate(scene).qualities)


def test_a_bandit_learns_from_the_log_which_engine_is_good(store: Store) -> None:
    trainer = BanditTrainer(outcomes_needed=20, half_life_s=HALF_LIFE_S)
    made = trainer.train(happened(store, 180, {"small": 0.2, "large": 0.9}), None)
    assert made is not None and made.accepted
    small, with_examples, large = expected(made.data)
    assert max(small, with_examples) < 0.5 < large
    assert VowpalBandit.load(made.data).settings.embedding_version == "mini@1"


def test_a_bandit_unlearns_when_the_world_has_turned(store: Store) -> None:
    trainer = BanditTrainer(outcomes_needed=20, half_life_s=HALF_LIFE_S)
    first = trainer.train(happened(store, 180, {"small": 0.2, "large": 0.9}), None)
    assert first is not None
    happened(store, 180, {"small": 0.9, "large": 0.3})
    latest = store.outcomes.experiences("a1", "gpt-4o", limit=180, latest=True)
    second = trainer.train(latest, Incumbent(first.data, first.metrics))
    assert second is not None and second.accepted, second
    small, with_examples, large = expected(second.data)
    assert min(small, with_examples) > large


def test_an_incumbent_that_cannot_be_read_is_replaced(store: Store) -> None:
    trainer = BanditTrainer(outcomes_needed=20, half_life_s=HALF_LIFE_S)
    made = trainer.train(happened(store, 60, {"small": 0.2, "large": 0.9}), Incumbent(b"truncated", {}))
    assert made is not None and made.accepted


@pytest.mark.parametrize(
    "changes",
    [{"vector": None}, {"features_version": "of old"}, {"actions": ()}],
    ids=["not embedded", "other features", "never weighed"],
)
def test_what_was_never_weighed_teaches_a_bandit_nothing(store: Store, changes: dict[str, Any]) -> None:
    experiences = happened(store, 60, {"small": 0.2, "large": 0.9}, **changes)
    assert BanditTrainer(outcomes_needed=20, half_life_s=HALF_LIFE_S).train(experiences, None) is None


def test_vectors_of_another_embedder_are_left_out(store: Store) -> None:
    happened(store, 60, {"small": 0.1, "large": 0.1}, vector=unit(1, 8), embedding_version="old@1")
    trainer = BanditTrainer(outcomes_needed=20, half_life_s=HALF_LIFE_S)
    made = trainer.train(happened(store, 60, {"small": 0.9, "large": 0.9}), None)
    assert made is not None and made.metrics["rows"] == 60
    assert min(expected(made.data)) > 0.5


def test_a_scorer_is_trained_that_a_worker_can_open(store: Store, tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    for number in range(400):
        scalars = generator.random((2, len(NAMES))).astype(np.float32)
        helps = generator.random(2) < 0.4
        scalars[:, PLACE["request_covered"]] = helps
        ids = ((1,), (2,), (1, 2))[number % 3]
        sent = tuple({"id": i, "similarity": 0.9, "gain": 0.1, "sent": True} for i in (1, 2))
        choice = weighed(number, 1, candidates=sent, candidate_features=scalars)
        store.decisions.choices.record(choice)
        good = float(generator.random() < (0.95 if any(helps[id - 1] for id in ids) else 0.05))
        store.outcomes.note(
            outcome_record(number, at_s=choice.at_s + 1, example_ids=ids, quality=good, probability=1.0)
        ).result(30)
        store.outcomes.note(
            outcome_record(
                number, at_s=choice.at_s + 1, key="alone", example_ids=(), quality=0.5, probability=1.0
            )
        ).result(30)
    asked: list[str] = []

    def answers_of(tenant: str) -> AnswersOf:
        asked.append(tenant)
        return lambda ids: {id: f"answer {id}" for id in ids}

    taught: list[tuple[str, str]] = []

    def lessons_of(tenant: str, latest: ChoiceRecord) -> None:
        taught.append((tenant, latest.embedding_version))

    trainer = ScorerTrainer(50, answers_of, prior_model, lessons_of)
    experiences = store.outcomes.experiences("a1", "gpt-4o")
    made = trainer.train(experiences, None)
    assert made is not None and made.metrics["outcomes"]["held_out"] > 100
    assert asked == ["a1"] and taught == [("a1", "mini@1")]
    path = tmp_path / "scorer.onnx"
    path.write_bytes(made.data)
    features = scorer_features.Features(rarity())
    scorer = Scorer.open(path, version="scorer-1", features=features, embedding_version="mini@1")
    scorer.close()
    assert trainer.train(experiences[:30], None) is None, "too few say nothing"
