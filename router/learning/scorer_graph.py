"""A trained scorer's weights, written down as an ONNX graph with the `features` signature. Needs no torch.

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

Those are the formulas; what is written down are fewer steps that come to the same, for each step takes time of its own: sums
go into the matrix product beside them, and both qualities are calibrated at once. What training left at nothing
(router.learning.scorer_fitting opens the embeddings of pairs only where the bank taught nothing) is left out, and so are the
inputs that nothing else looks at.

The low rank is what keeps a thousand embedding products from being learnt by heart by a few hundred outcomes; `direct`
is the logistic regression that the scalars would make by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from router.scorer_artifact import EFFECTS, Declared
from router.scorer_features import NAMES, VERSION
from router.set_quality import EPSILON

if TYPE_CHECKING:
    import numpy.typing as npt

    Weights = Mapping[str, npt.NDArray[np.float32]]

MOST_SPREADS = 4.0
"""Standard deviations from the mean at which a scalar is held."""

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
    _effects(graph, dimensions)
    _combination(graph)
    _calibration(graph)
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
    outputs = [
        helper.make_tensor_value_info("quality_with", f32, ["n"]),
        helper.make_tensor_value_info("quality_alone", f32, [1]),
        *(helper.make_tensor_value_info(name, f32, ["n"]) for name in EFFECTS),
    ]
    whole = helper.make_graph(graph.nodes, "scorer", inputs, outputs, graph.constants)
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    said = Declared(
        "features",
        dimensions=dimensions,
        features_version=VERSION,
        features_names=NAMES,
        embedding_version=embedding_version,
    )
    helper.set_model_props(model, said.metadata())
    return bytes(model.SerializeToString(deterministic=True))


class _Graph:
    """Nodes and constants in the making."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: npt.ArrayLike) -> None:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.array(value, np.float32, order="C"), name))

    def places(self, name: str, place: int) -> None:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.array([place], np.int64), name))

    def node(self, kind: str, inputs: str, output: str, **attributes: int) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs.split(), [output], **attributes))

    def steps(self, *steps: tuple[str, str, str]) -> None:
        """Nodes one after the other: kind, inputs, output."""
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


def _effects(graph: _Graph, dimensions: int) -> None:
    """From the inputs to `all_effects` [n, 2m], help and harm of each member in turn, and `without` [1], quality alone."""
    weights = graph.weights
    for name in ("topics", "scale", "shift", "hidden_scalars", "hidden_topic", "out", "direct", "alone"):
        graph.constant(name, weights[name])
    for name in ("hidden_bias", "out_bias", "alone_bias"):
        graph.constant(name, weights[name][None])
    graph.constant("least", -MOST_SPREADS)
    graph.constant("most", MOST_SPREADS)
    graph.constant("mean_alone", weights["mean_alone"][:, 0])
    graph.steps(
        ("MatMul", "request topics", "topic_logits"),
        ("Tanh", "topic_logits", "topic"),
        ("Mul", "scalars scale", "scaled"),
        ("Add", "scaled shift", "shifted"),
        ("Clip", "shifted least most", "normal"),
        ("Gemm", "topic hidden_topic hidden_bias", "from_request"),
        ("Gemm", "normal hidden_scalars from_request", "before_pair"),
    )
    before = "before_pair"
    if weights["low_rank"].size:
        _pair(graph, dimensions)
        before = "before"
    graph.steps(
        ("Relu", before, "hidden"),
        ("Gemm", "normal direct out_bias", "by_scalars"),
        ("Gemm", "hidden out by_scalars", "effect_logits"),
        ("Sigmoid", "effect_logits", "all_effects"),
        ("Gemm", "topic alone alone_bias", "alone_logits"),
        ("Sigmoid", "alone_logits", "all_without"),
        ("MatMul", "all_without mean_alone", "without"),
    )


def _pair(graph: _Graph, dimensions: int) -> None:
    """`before` [n, h]: `before_pair` and what the embeddings say about the two."""
    # Laying the three products side by side would copy them; three smaller matrices cost nothing.
    for i, name in enumerate(("of_product", "of_distance", "of_answer")):
        graph.constant(name, graph.weights["low_rank"][i * dimensions : (i + 1) * dimensions])
    graph.constant("hidden_pair", graph.weights["hidden_pair"])
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


def _combination(graph: _Graph) -> None:
    """`with_one` [n] = 1 - (1 - mean help) * (1 - without * (1 - mean harm))."""
    mean_help, mean_harm = graph.weights["mean_effects"].T
    graph.constant("mean_help", mean_help)
    graph.constant("mean_harm", mean_harm)
    graph.constant("all", 1.0)
    graph.node("MatMul", "all_effects mean_help", "helps")
    graph.node("MatMul", "all_effects mean_harm", "harms")
    graph.node("Sub", "all harms", "keeps")
    graph.node("Mul", "keeps without", "right_unhelped")
    graph.node("Sub", "all right_unhelped", "wrong_unhelped")
    graph.node("Sub", "all helps", "unhelped")
    graph.node("Mul", "unhelped wrong_unhelped", "wrong")
    graph.node("Sub", "all wrong", "with_one")


def _calibration(graph: _Graph) -> None:
    """`quality_with` and `quality_alone`: the log-odds of what was combined, on another line."""
    graph.constant("slope", graph.weights["slope"])
    graph.constant("offset", graph.weights["offset"])
    graph.constant("low", EPSILON)
    graph.constant("high", 1 - EPSILON)
    graph.constant("one", 1.0)
    graph.places("first", 0)
    graph.places("last", -1)
    graph.places("end", np.iinfo(np.int64).max)
    graph.node("Concat", "with_one without", "qualities", axis=0)
    graph.steps(
        ("Clip", "qualities low high", "inside"),
        ("Sub", "one inside", "wrong_of_all"),
        ("Div", "inside wrong_of_all", "odds"),
        ("Log", "odds", "logits"),
        ("Mul", "logits slope", "sloped"),
        ("Add", "sloped offset", "on_the_line"),
        ("Sigmoid", "on_the_line", "calibrated"),
        ("Slice", "calibrated first last", "quality_with"),
        ("Slice", "calibrated last end", "quality_alone"),
    )
