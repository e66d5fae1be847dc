"""Writes a trained scorer's weights as an ONNX graph with the `features` signature. Needs no torch.

The network, for one request q and each example (question e, answer x, scalars s):

    s'      = s * scale + shift, held within -4 and 4       so that what was never seen counts as merely extreme
    pair    = [q * e, |q - e|, q * x] @ low_rank            what the embeddings say about the two
    topic   = tanh(q @ topics)                              what the request is about
    hidden  = relu([s', pair, topic] @ hidden + bias)
    help, harm = sigmoid(hidden @ out + s' @ direct + bias) @ mean_effects
    alone   = sigmoid(topic @ alone + bias) @ mean_alone    quality without any
    with    = help + (1 - help) * alone * (1 - harm)        quality with this example by itself

and both qualities' log-odds times slope plus offset. Help and harm are given out, too. Several networks that were fitted
apart stand side by side in the same matrices (`side_by_side`), and their effects are averaged.

Those are the formulas; what is written down are fewer steps that come to the same, for among the other work of a request
each takes two microseconds, whatever it does. Scalars are held within bounds as they come; the matrix behind scales them.
What goes straight to the outputs passes the hidden layer as one unit for what is above 0 and one for what is below: so the
direct share and quality alone need no steps of their own. The means give what is mended and spoilt and what is not at once,
each beside what it is without an example (1, 1), so that both qualities are combined and calibrated in the same steps. What
training left at nothing (learning.training.scorer.fitting opens the embeddings of pairs only where the bank taught
nothing) is left out, and so are the inputs that nothing else looks at.

The low rank is what keeps a thousand embedding products from being learnt by heart by a few hundred outcomes; `direct`
is the logistic regression that the scalars would make by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from router.examples.features import NAMES, VERSION
from router.examples.scorer_artifact import EFFECTS, OUTPUTS, Declared
from router.examples.set_quality import EPSILON

if TYPE_CHECKING:
    import numpy.typing as npt

    Weights = Mapping[str, npt.NDArray[np.float32]]

MOST_SPREADS = 4.0
"""Deviations from the mean at which a scalar is clipped."""

SHAPES = {
    "scale": ("s",),
    "shift": ("s",),
    "low_rank": ("3d", "r"),
    "topics": ("d", "t"),
    "hidden_scalars": ("s", "h"),
    "hidden_pair": ("r", "h"),
    "hidden_topic": ("t", "h"),
    "hidden_bias": ("h",),
    "out": ("h", "2m"),
    "direct": ("s", "2m"),
    "out_bias": ("2m",),
    "alone": ("t", "m"),
    "alone_bias": ("m",),
    "mean_effects": ("2m", "2"),
    "mean_alone": ("m", "1"),
    "slope": ("1",),
    "offset": ("1",),
}
"""Every weight by name. d: dimensions, s: scalars, r: rank, t: topics, h: hidden units, m: members."""


def side_by_side(members: Sequence[Weights]) -> dict[str, npt.NDArray[np.float32]]:
    """The weights of one network that gives the mean of several, which share `scale` and `shift`."""
    joined = {name: np.concatenate([w[name] for w in members], axis=-1) for name in _NEXT_TO_EACH_OTHER}
    for name in _ON_THE_DIAGONAL:
        blocks = [w[name] for w in members]
        rows, columns = blocks[0].shape
        whole = np.zeros((rows * len(blocks), columns * len(blocks)), np.float32)
        for i, block in enumerate(blocks):
            whole[i * rows : (i + 1) * rows, i * columns : (i + 1) * columns] = block
        joined[name] = whole
    count = len(members)
    joined["mean_effects"] = np.tile(np.eye(2, dtype=np.float32), (count, 1)) / count
    joined["mean_alone"] = np.full((count, 1), 1 / count, np.float32)
    return {**members[0], **joined}


_NEXT_TO_EACH_OTHER = (
    "low_rank",
    "topics",
    "hidden_scalars",
    "hidden_bias",
    "direct",
    "out_bias",
    "alone_bias",
)
_ON_THE_DIAGONAL = ("hidden_pair", "hidden_topic", "out", "alone")


def scorer_model(weights: Weights, *, embedding_version: str = "") -> bytes:
    """The model as bytes, with its metadata; `weights` as in SHAPES, float32, calibration folded in."""
    from onnx import TensorProto, helper

    dimensions = len(weights["topics"])
    weights = _without_idle(weights)
    graph = _Graph(weights)
    _shares(graph, dimensions)
    _qualities(graph)
    f32 = TensorProto.FLOAT
    inputs = [
        helper.make_tensor_value_info("scalars", f32, ["n", len(NAMES)]),
        helper.make_tensor_value_info("request", f32, [1, dimensions]),
    ]
    if weights["low_rank"].size:
        inputs += [
            helper.make_tensor_value_info(name, f32, ["n", dimensions])
            for name in ("example_questions", "example_answers")
        ]
    outputs = [helper.make_tensor_value_info(name, f32, ["n", 1]) for name in (*OUTPUTS, *EFFECTS)]
    whole = helper.make_graph(graph.nodes, "scorer", inputs, outputs, graph.constants)
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    said = Declared(
        dimensions=dimensions,
        features_version=VERSION,
        features_names=NAMES,
        embedding_version=embedding_version,
    )
    helper.set_model_props(model, said.metadata())
    return bytes(model.SerializeToString(deterministic=True))


class _Graph:
    """Collects nodes and constants of the graph."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: npt.ArrayLike) -> None:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.array(value, np.float32, order="C"), name))

    def integers(self, name: str, values: Sequence[int]) -> None:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.array(values, np.int64), name))

    def node(self, kind: str, inputs: str, outputs: str, **attributes: int) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs.split(), outputs.split(), **attributes))

    def steps(self, *steps: tuple[str, str, str]) -> None:
        """Adds nodes one after the other: kind, inputs, output."""
        for kind, inputs, output in steps:
            self.node(kind, inputs, output)


def _without_idle(weights: Weights) -> dict[str, npt.NDArray[np.float32]]:
    """The weights without the directions of the embeddings that are nothing: those come to 0 for every request."""
    ranks = np.flatnonzero(np.any(weights["low_rank"], axis=0))
    # One is kept in any case, for quality alone is read from the request.
    topics = np.flatnonzero(np.any(weights["topics"], axis=0)) if np.any(weights["topics"]) else [0]
    return {
        **weights,
        "low_rank": weights["low_rank"][:, ranks],
        "hidden_pair": weights["hidden_pair"][ranks],
        "topics": weights["topics"][:, topics],
        "hidden_topic": weights["hidden_topic"][topics],
        "alone": weights["alone"][topics],
    }


def _shares(graph: _Graph, dimensions: int) -> None:
    """From the inputs to `shares` [n, 3m]: help and harm by each member in turn, then quality alone by each."""
    w = graph.weights
    straight = w["out"].shape[1]
    members = w["alone"].shape[1]
    # Columns of the hidden layer: its own units, the direct share, the same with the other sign, quality alone likewise.
    from_scalars = np.concatenate(
        [w["hidden_scalars"], w["direct"], -w["direct"], np.zeros((len(NAMES), 2 * members))], axis=1
    )
    nothing = np.zeros((len(w["topics"].T), 2 * straight))
    from_topic = np.concatenate([w["hidden_topic"], nothing, w["alone"], -w["alone"]], axis=1)
    bias = np.concatenate(
        [w["hidden_bias"], w["out_bias"], -w["out_bias"], w["alone_bias"], -w["alone_bias"]]
    )
    out = np.zeros((from_scalars.shape[1], straight + members))
    out[: len(w["out"]), :straight] = w["out"]
    for first, count, place in (
        (len(w["out"]), straight, 0),
        (len(w["out"]) + 2 * straight, members, straight),
    ):
        for i in range(count):
            out[first + i, place + i], out[first + count + i, place + i] = 1.0, -1.0
    scale, shift = w["scale"].astype(np.float64), w["shift"].astype(np.float64)
    # Where nothing is scaled, what comes in counts for nothing, and any bounds will do.
    per_unit = np.where(scale == 0.0, 1.0, scale)
    ends = np.sort([(-MOST_SPREADS - shift) / per_unit, (MOST_SPREADS - shift) / per_unit], axis=0)
    shift = np.where(scale == 0.0, np.clip(shift, -MOST_SPREADS, MOST_SPREADS), shift)
    graph.constant("least", ends[0])
    graph.constant("most", ends[1])
    graph.constant("topics", w["topics"])
    graph.constant("from_scalars", scale[:, None] * from_scalars)
    graph.constant("from_topic", from_topic)
    graph.constant("bias", (bias + shift @ from_scalars)[None])
    graph.constant("out", out)
    graph.steps(
        ("MatMul", "request topics", "topic_logits"),
        ("Tanh", "topic_logits", "topic"),
        ("Gemm", "topic from_topic bias", "from_request"),
        ("Max", "scalars least", "not_below"),
        ("Min", "not_below most", "held"),
        ("Gemm", "held from_scalars from_request", "before_pair"),
    )
    before = "before_pair"
    if w["low_rank"].size:
        _pair(graph, dimensions, from_scalars.shape[1])
        before = "before"
    graph.steps(
        ("Relu", before, "hidden"),
        ("MatMul", "hidden out", "logits"),
        ("Sigmoid", "logits", "shares"),
    )


def _pair(graph: _Graph, dimensions: int, width: int) -> None:
    """`before` [n, width]: `before_pair` and, in the hidden layer's own units, what the embeddings say about the two."""
    # Laying the three products side by side would copy them; three smaller matrices cost nothing.
    for i, name in enumerate(("of_product", "of_distance", "of_answer")):
        graph.constant(name, graph.weights["low_rank"][i * dimensions : (i + 1) * dimensions])
    hidden = graph.weights["hidden_pair"]
    graph.constant("hidden_pair", np.pad(hidden, ((0, 0), (0, width - hidden.shape[1]))))
    graph.steps(
        ("Mul", "request example_questions", "product"),
        ("Sub", "request example_questions", "difference"),
        ("Abs", "difference", "distance"),
        ("Mul", "request example_answers", "answer_product"),
        ("MatMul", "product of_product", "pair_product"),
        ("Gemm", "distance of_distance pair_product", "pair_questions"),
        ("Gemm", "answer_product of_answer pair_questions", "pair"),
        ("Gemm", "pair hidden_pair before_pair", "before"),
    )


def _qualities(graph: _Graph) -> None:
    """`helps`, `harms`, `quality_with` and `quality_alone`, each [n, 1].

    wrong = (1 - help) * (1 - without * (1 - harm)), and calibrated: 1 / (1 + (wrong / right) ** slope / e ** offset).
    """
    w = graph.weights
    effects, alone = w["mean_effects"], w["mean_alone"]
    members = len(alone)
    # Columns: what is not mended, with and without an example; what is not spoilt; quality alone; help; harm.
    means, base = np.zeros((len(effects) + members, 8)), np.array([1, 1, 1, 1, 0, 0, 0, 0], np.float64)
    means[: len(effects), [0, 2]], means[: len(effects), [6, 7]] = -effects, effects
    means[len(effects) :, [4, 5]] = alone
    graph.constant("means", means)
    graph.constant("base", base[None])
    graph.integers("widths", [2, 2, 2, 1, 1])
    graph.integers("each", [1, 1])
    graph.constant("low", EPSILON)
    graph.constant("high", 1 - EPSILON)
    graph.constant("one", 1.0)
    graph.constant("slope", w["slope"])
    graph.constant("odds_at_even", np.exp(w["offset"].astype(np.float64)))
    graph.steps(("Gemm", "shares means base", "averaged"))
    graph.node("Split", "averaged widths", "unmended unspoilt without helps harms", axis=1)
    graph.steps(
        ("Mul", "unspoilt without", "right_by_itself"),
        ("Sub", "one right_by_itself", "wrong_by_itself"),
        ("Mul", "unmended wrong_by_itself", "all_wrong"),
        ("Clip", "all_wrong low high", "wrong"),
        ("Sub", "one wrong", "right"),
        ("Div", "wrong right", "odds"),
        ("Pow", "odds slope", "sloped"),
        ("Add", "sloped odds_at_even", "whole"),
        ("Div", "odds_at_even whole", "qualities"),
    )
    graph.node("Split", "qualities each", "quality_with quality_alone", axis=1)
