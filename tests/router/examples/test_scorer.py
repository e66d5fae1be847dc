"""The scorer asks its model in time or not at all, and refuses a model that is not what it must be."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from router.examples.features import HALF_HELPS_MOST, NAMES, RULE_HELPS_MOST, Features
from router.examples.prior import prior_model
from router.examples.scorer import Scorer, ScorerBroken, ScorerError, ScorerLate
from router.examples.scorer_artifact import Declared, declared
from router.plan import Candidate
from tests.router.examples.scoring import (
    DIMENSIONS,
    candidates,
    example,
    features_declared,
    features_model,
    former_signature,
    rarity,
    request,
    unit,
)


@pytest.fixture(scope="module")
def features() -> Features:
    return Features(rarity())


def opened(model: Path, features: Features, **changes: Any) -> Scorer:
    options: dict[str, Any] = {
        "version": "v1",
        "dimensions": DIMENSIONS,
        "features": features,
        "deadline_s": 10.0,
    }
    return Scorer.open(model, **(options | changes))


@pytest.fixture
def scorer(tmp_path: Path, features: Features) -> Iterator[Scorer]:
    scorer = opened(features_model(tmp_path / "m.onnx"), features)
    yield scorer
    scorer.close()


def test_scores_are_the_models_in_the_order_of_the_candidates(scorer: Scorer, features: Features) -> None:
    scores = scorer.score(request(), candidates())
    assert scores.quality_alone == 0.25
    assert scores.quality_with == pytest.approx([0.9, 0.8, 0.7, 0.6])
    assert scores.gains == pytest.approx(scores.quality_with - 0.25)
    assert scores.scorer == scorer.version == "v1"
    assert scores.features.shape == (4, len(NAMES))


def test_an_example_is_as_old_as_the_clock_that_was_given_says(tmp_path: Path, features: Features) -> None:
    then = opened(features_model(tmp_path / "m.onnx"), features, clock=lambda: 1000.0 + 86400.0)
    now = opened(tmp_path / "m.onnx", features)
    age = NAMES.index("age")
    try:
        assert then.score(request(), candidates()).features[:, age] == pytest.approx(np.log(2.0))
        assert (now.score(request(), candidates()).features[:, age] > 9.0).all()
    finally:
        then.close()
        now.close()


def test_without_candidates_there_is_still_the_quality_alone(scorer: Scorer) -> None:
    scores = scorer.score(request(), [])
    assert scores.quality_alone == 0.25
    assert scores.gains.shape == (0,)
    assert scores.features.shape == (0, len(NAMES))


def test_candidates_without_any_vector_are_scored(scorer: Scorer) -> None:
    bare = [replace(c, vector=None, answer_vector=None) for c in candidates()]
    assert scorer.score(request(), bare).quality_with == pytest.approx([0.9, 0.8, 0.7, 0.6])


def test_vectors_of_another_size_are_an_error_of_ours(scorer: Scorer) -> None:
    wrong = [replace(candidates()[0], vector=unit(1, DIMENSIONS + 1))]
    with pytest.raises(ScorerBroken, match="another size"):
        scorer.score(request(), wrong)


def test_the_prior_can_be_opened_and_says_that_it_is_one(tmp_path: Path, features: Features) -> None:
    path = tmp_path / "prior.onnx"
    path.write_bytes(prior_model())
    scorer = opened(path, features, version="prior", embedding_version="any")
    assert scorer.declared.prior
    gains = scorer.score(request(), candidates()).gains
    assert gains[0] > gains[3]
    scorer.close()


def busy(scorer: Scorer) -> threading.Event:
    """Keeps the session's thread busy until the event is set."""
    begun, release = threading.Event(), threading.Event()

    def stand(_: object) -> None:
        begun.set()
        release.wait(30)

    scorer._session.submit(stand)
    assert begun.wait(60)
    return release


def test_a_scorer_that_takes_too_long_is_late(tmp_path: Path, features: Features) -> None:
    scorer = opened(features_model(tmp_path / "m.onnx"), features, deadline_s=1e-9)
    with pytest.raises(ScorerLate, match="no scores within 1e-06 ms"):
        scorer.score(request(), candidates())
    scorer.close()


def test_a_features_model_waits_for_nobody(tmp_path: Path, features: Features) -> None:
    scorer = opened(features_model(tmp_path / "m.onnx"), features)
    release = busy(scorer)
    assert scorer.score(request(), candidates()).scorer
    release.set()
    scorer.close()


def test_a_closed_scorer_is_late(tmp_path: Path, features: Features) -> None:
    scorer = opened(features_model(tmp_path / "m.onnx"), features)
    scorer.close()
    with pytest.raises(ScorerLate, match="closed"):
        scorer.score(request(), candidates())


BROKEN = {
    "absent": (lambda path: path, "could not be loaded"),
    "no model": (lambda path: path.write_bytes(b"nothing") and path, "could not be loaded"),
    "cut short": (lambda path: path.write_bytes(prior_model()[:300]) and path, "could not be loaded"),
    "undeclared": (lambda path: features_model(path, metadata={}), "declares scorer format None"),
    "unknown signature": (
        lambda path: features_model(path, metadata=former_signature()),
        "signature 'cross_encoder'",
    ),
    "unreadable names": (
        lambda path: features_model(
            path, metadata=features_declared() | {"understudy.scorer.features_names": "["}
        ),
        "cannot be read",
    ),
    "other features version": (
        lambda path: features_model(path, metadata=features_declared(features_version="0")),
        "features version '0'",
    ),
    "other names": (
        lambda path: features_model(path, metadata=features_declared(features_names=NAMES[::-1])),
        "features version",
    ),
    "other dimensions": (
        lambda path: features_model(path, metadata=features_declared(dimensions=DIMENSIONS * 2)),
        "embeddings of 16 dimensions",
    ),
    "other embedder": (
        lambda path: features_model(path, metadata=features_declared(embedding_version="old")),
        "trained on embeddings old",
    ),
    "other width": (lambda path: features_model(path, width=3), "3 columns"),
    "other inputs": (lambda path: features_model(path, input_name="numbers"), "takes scalars"),
    "not a number": (lambda path: features_model(path, scale=float("nan")), "no quality"),
    "no effects": (lambda path: features_model(path, harm=float("nan")), "effects that are no shares"),
    "another count": (lambda path: features_model(path, rows="first"), "1 and 1 qualities for 2"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_model_that_is_not_what_it_must_be_is_refused_when_opened(
    tmp_path: Path, features: Features, kind: str
) -> None:
    make, message = BROKEN[kind]
    threads = threading.active_count()
    with pytest.raises(ScorerBroken, match=message):
        opened(make(tmp_path / "m.onnx"), features, embedding_version="new")
    assert threading.active_count() == threads


def test_qualities_outside_the_scale_are_no_scores(tmp_path: Path, features: Features) -> None:
    scorer = opened(features_model(tmp_path / "m.onnx", scale=5.0), features)
    with pytest.raises(ScorerBroken, match="no quality"):
        scorer.score(request(), candidates())
    scorer.close()


def test_help_and_harm_are_told_where_the_model_tells_them(
    scorer: Scorer, tmp_path: Path, features: Features
) -> None:
    untold = scorer.score(request(), candidates())
    shares = [gain / (1.0 - untold.quality_alone) for gain in untold.gains.tolist()]
    assert untold.effects == [(pytest.approx(share), 0.0) for share in shares], "promised is mended"
    telling = opened(features_model(tmp_path / "m.onnx", harm=0.5), features)
    effects = telling.score(request(), candidates()).effects
    assert effects == [pytest.approx((one, one / 2)) for one in (0.9, 0.8, 0.7, 0.6)]
    assert telling.score(request(), []).effects == []
    telling.close()


def test_what_shows_a_rule_or_answers_one_of_two_questions_is_not_promised_to_be_enough(
    tmp_path: Path, features: Features
) -> None:
    telling = opened(features_model(tmp_path / "m.onnx", harm=0.5), features)
    flux = example(1, question="username of Hugo Flux?", answer="It is hflux9.")
    city = example(2, question="population of Quoustland?", answer="It is 9.")
    near = [Candidate(flux, 0.9), Candidate(city, 0.8)]
    other = replace(request(), text="username of Mina Breiciert?")
    assert telling.score(other, near).effects == [
        pytest.approx((RULE_HELPS_MOST, 0.45), abs=0.01),
        pytest.approx((0.8, 0.4)),
    ]
    same = replace(request(), text="username of Hugo Flux?")
    assert telling.score(same, near).effects[0] == pytest.approx((0.9, 0.45))
    both = replace(request(), text="population and capital of Quoustland?")
    assert telling.score(both, near).effects[1] == pytest.approx((HALF_HELPS_MOST, 0.4), abs=0.01)
    telling.close()


@pytest.mark.parametrize("harm", [2.0, -0.1])
def test_effects_that_are_no_shares_are_no_scores(tmp_path: Path, features: Features, harm: float) -> None:
    scorer = opened(features_model(tmp_path / "m.onnx", harm=harm), features)
    with pytest.raises(ScorerBroken, match="effects that are no shares"):
        scorer.score(request(), candidates())
    scorer.close()


def test_every_error_is_one_the_caller_can_go_on_without() -> None:
    assert issubclass(ScorerLate, ScorerError)
    assert issubclass(ScorerBroken, ScorerError)


def test_what_a_model_declares_can_be_read_back() -> None:
    said = Declared(384, "7", ("a", "b"), "mini@1", prior=True)
    assert declared(said.metadata()) == said
