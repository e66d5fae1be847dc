"""The network as it is written down: the formula of its own docstring, and a model the scorer opens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from learning.training.scorer.graph import MOST_SPREADS, SHAPES, scorer_model, side_by_side
from router.embedding.onnx_session import OnnxSession
from router.examples.features import NAMES, Features
from router.examples.scorer import Scorer
from router.examples.set_quality import EPSILON
from tests.router.examples.scoring import DIMENSIONS, candidates, rarity, request, unit

SIZES = {"d": DIMENSIONS, "3d": 3 * DIMENSIONS, "s": len(NAMES), "r": 3, "t": 2, "h": 5, "m": 1, "2m": 2}


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    shapes = {name: [SIZES.get(size) or int(size) for size in shape] for name, shape in SHAPES.items()}
    drawn = {
        name: generator.standard_normal(shape).astype(np.float32) * 0.5 for name, shape in shapes.items()
    }
    return drawn | {"mean_effects": np.eye(2, dtype=np.float32), "mean_alone": np.ones((1, 1), np.float32)}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def by_hand(
    w: dict[str, np.ndarray], q: np.ndarray, e: np.ndarray, x: np.ndarray, s: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    normal = np.clip(s * w["scale"] + w["shift"], -MOST_SPREADS, MOST_SPREADS)
    topic = np.tanh(q @ w["topics"])
    pair = np.concatenate([q * e, abs(q - e), q * x], 1) @ w["low_rank"]
    inside = (
        normal @ w["hidden_scalars"] + pair @ w["hidden_pair"] + topic @ w["hidden_topic"] + w["hidden_bias"]
    )
    effects = sigmoid(np.maximum(inside, 0) @ w["out"] + normal @ w["direct"] + w["out_bias"])
    helps, harms = (effects @ w["mean_effects"]).T
    alone = float((sigmoid(topic @ w["alone"] + w["alone_bias"]) @ w["mean_alone"])[0])
    with_one = helps + (1 - helps) * alone * (1 - harms)

    def line(quality: np.ndarray) -> np.ndarray:
        p = np.clip(quality, EPSILON, 1 - EPSILON)
        return sigmoid(np.log(p / (1 - p)) * w["slope"] + w["offset"])

    return line(with_one), float(line(np.array(alone))[0]), helps, harms


def three_members() -> dict[str, np.ndarray]:
    shared = {name: weights()[name] for name in ("scale", "shift", "slope", "offset")}
    return side_by_side([weights(seed) | shared for seed in range(3)])


def of_scalars_only() -> dict[str, np.ndarray]:
    """As training with lessons leaves it: nothing is read from pairs, one direction of the request."""
    drawn = three_members()
    drawn["topics"][:, [1, 3, 5]] = 0.0
    return drawn | {"low_rank": drawn["low_rank"] * 0}


def with_scalars_that_never_varied() -> dict[str, np.ndarray]:
    drawn = three_members()
    drawn["scale"][:3] = 0.0
    drawn["shift"][:3] = -9.0, 0.0, 9.0
    return drawn


@pytest.mark.parametrize(
    "drawn",
    [
        weights(),
        three_members(),
        of_scalars_only(),
        with_scalars_that_never_varied(),
        weights() | {"topics": weights()["topics"] * 0},
    ],
    ids=["one network", "three of them", "of scalars only", "idle scalars", "the same alone for all"],
)
def test_the_graph_computes_what_its_docstring_says(tmp_path: Path, drawn: dict[str, np.ndarray]) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(scorer_model(drawn))
    q, n = unit(1), 4
    e, x = np.stack([unit(i) for i in range(n)]), np.stack([unit(9 + i) for i in range(n)])
    s = np.random.default_rng(5).standard_normal((n, len(NAMES))).astype(np.float32) * 4
    feeds = {"request": q[None], "example_questions": e, "example_answers": x, "scalars": s}
    session = OnnxSession(path, name="graph")
    found = session.submit(lambda infer: infer({name: feeds[name] for name in session.inputs})).result()
    session.close()
    for one, expected in zip(found, by_hand(drawn, q, e, x, s), strict=True):
        assert np.allclose(one.reshape(-1), expected, atol=1e-4), "quality with one and alone, help, harm"


def test_inputs_that_nothing_looks_at_are_left_out(tmp_path: Path) -> None:
    taken = []
    for drawn in (three_members(), of_scalars_only()):
        (path := tmp_path / "m.onnx").write_bytes(scorer_model(drawn))
        session = OnnxSession(path, name="graph")
        taken.append(set(session.inputs))
        session.close()
    assert taken == [
        {"scalars", "request", "example_questions", "example_answers"},
        {"scalars", "request"},
    ]


def test_the_scorer_opens_it(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(scorer_model(weights(), embedding_version="mini@1"))
    scorer = Scorer.open(
        path,
        version="7",
        dimensions=DIMENSIONS,
        features=Features(rarity()),
        deadline_s=10.0,
        embedding_version="mini@1",
    )
    assert not scorer.declared.prior
    scores = scorer.score(request(), candidates())
    assert len(scores.gains) == len(scores.effects or ()) == 4
    assert all(0.0 <= share <= 1.0 for effect in scores.effects or () for share in effect)
    assert scorer.score(request(), []).effects == []
    scorer.close()


def test_the_same_weights_are_the_same_bytes() -> None:
    assert scorer_model(weights()) == scorer_model(weights())


def test_networks_side_by_side_give_the_mean_of_their_effects(tmp_path: Path) -> None:
    line = {"slope": np.ones(1, np.float32), "offset": np.zeros(1, np.float32)}
    shared = {name: weights()[name] for name in ("scale", "shift")} | line
    members = [weights(seed) | shared for seed in range(3)]
    # Without help and harm, what is left is the mean of what they expect alone.
    for member in members:
        member["out"], member["direct"] = member["out"] * 0, member["direct"] * 0
        member["out_bias"] = np.array([-30.0, -30.0], np.float32)
    path = tmp_path / "m.onnx"
    path.write_bytes(scorer_model(side_by_side(members) | line))
    scorer = Scorer.open(
        path, version="7", dimensions=DIMENSIONS, features=Features(rarity()), deadline_s=10.0
    )
    scores = scorer.score(request(), candidates())
    scorer.close()
    zeros = np.zeros((1, DIMENSIONS), np.float32)
    alone = [by_hand(m, unit(1), zeros, zeros, np.zeros((1, len(NAMES)), np.float32))[1] for m in members]
    assert np.allclose(scores.quality_alone, np.mean(alone), atol=1e-4)
    assert np.allclose(scores.gains, 0.0, atol=1e-4)
