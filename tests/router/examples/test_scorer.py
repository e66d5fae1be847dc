"""A scorer gives a worth between 0 and 1 for every example, or says that it cannot: late, broken, made for others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from router.examples.features import NAMES, Features, RequestView
from router.examples.rarity import Rarity
from router.examples.scorer import Declared, Scorer, ScorerBroken, ScorerLate
from router.examples.set_quality import UNLEARNT, SetQuality
from tests.router.examples.scoring import candidates, features_model, former_metadata, request, unit

FEATURES = Features(Rarity())
LEARNT = SetQuality(0.2, 0.3, 0.4, 0.1, 0.01)


def opened(path: Path, **changes: Any) -> Scorer:
    return Scorer.open(path, **({"version": "v1", "features": FEATURES, "deadline_s": 10.0} | changes))


@pytest.fixture
def scorer(tmp_path: Path) -> Iterator[Scorer]:
    scorer = opened(features_model(tmp_path / "m.onnx"))
    yield scorer
    scorer.close()


def test_every_candidate_gets_its_worth_in_order_with_the_features_it_was_told_from(scorer: Scorer) -> None:
    scores = scorer.score(request(), candidates())
    assert scores.worths == pytest.approx([0.9, 0.8, 0.7, 0.6])
    assert scores.features.shape == (4, len(NAMES)) and scores.scorer == "v1"
    assert scorer.score(request(), []).worths == []


def test_how_a_set_adds_up_is_that_of_the_scope_then_of_the_tenant_then_unlearnt(tmp_path: Path) -> None:
    other = SetQuality(0.5, 0.0, 0.1, 0.0, 0.0)
    told = Declared(qualities={"": other, "s": LEARNT}).metadata()
    learnt = opened(features_model(tmp_path / "a.onnx", metadata=told))
    plain = opened(features_model(tmp_path / "b.onnx"))
    found = [
        learnt.score(request(), candidates(), "s").quality,
        learnt.score(request(), candidates(), "new").quality,
        plain.score(request(), candidates(), "s").quality,
    ]
    learnt.close()
    plain.close()
    assert found == [LEARNT, other, UNLEARNT]


def test_what_a_model_declares_is_read_again() -> None:
    said = Declared(embedding_version="mini@1", prior=True, qualities={"": LEARNT, "s": UNLEARNT})
    assert Declared.read(said.metadata()) == said


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"metadata": {}}, "format"),
        ({"metadata": former_metadata()}, "format"),
        ({"metadata": Declared(features_version="9").metadata()}, "features version"),
        ({"metadata": Declared(features_names=NAMES[:-1]).metadata()}, "features"),
        ({"metadata": Declared().metadata() | {"understudy.scorer.qualities": '{"": [1, 2]}'}}, "five"),
        (
            {"metadata": Declared().metadata() | {"understudy.scorer.qualities": '{"": [-1, 0, 0, 0, 0]}'}},
            "five",
        ),
        ({"metadata": Declared().metadata() | {"understudy.scorer.qualities": "no"}}, "Expecting"),
        ({"width": 3}, "m.onnx"),
        ({"shape": "one"}, "m.onnx"),
    ],
)
def test_a_model_made_for_something_else_is_refused_when_it_is_opened(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ScorerBroken, match=reason):
        opened(features_model(tmp_path / "m.onnx", **changes))


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"nonsense")
    for name in ("m.onnx", "absent.onnx"):
        with pytest.raises(ScorerBroken, match="could not be loaded"):
            opened(tmp_path / name)


def test_a_model_of_another_embedder_is_refused(tmp_path: Path) -> None:
    path = features_model(tmp_path / "m.onnx", metadata=Declared(embedding_version="other@1").metadata())
    with pytest.raises(ScorerBroken, match="other@1"):
        opened(path, embedding_version="mini@1")
    opened(path, embedding_version="other@1").close()


def test_worths_outside_nought_to_one_are_no_worths(tmp_path: Path) -> None:
    scorer = opened(features_model(tmp_path / "m.onnx", scale=3.0))
    with pytest.raises(ScorerBroken, match="outside 0 to 1"):
        scorer.score(request(), candidates())
    scorer.close()


def test_scores_that_took_too_long_are_late_and_a_closed_scorer_too(tmp_path: Path) -> None:
    scorer = opened(features_model(tmp_path / "m.onnx"), deadline_s=0.0)
    with pytest.raises(ScorerLate, match="within"):
        scorer.score(request(), candidates())
    scorer.close()
    with pytest.raises(ScorerLate, match="closed"):
        scorer.score(request(), candidates())


def test_vectors_of_another_size_are_a_broken_scorer_not_a_broken_request(scorer: Scorer) -> None:
    with pytest.raises(ScorerBroken, match="another size"):
        scorer.score(RequestView("x", unit(1, 5)), candidates())
    assert np.isfinite(scorer.score(request(), candidates()).features).all()
