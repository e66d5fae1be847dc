"""A trained scorer's weights, written down as an ONNX graph with the `features` signature. Needs no torch.

The network, for one request q and each example (question e, answer x, scalars s):

    s'      = s * scale + shift, held within -4 and 4       so that what was never seen counts as merely extreme
    pair    = [q * e, |q - e|, q * x] @ low_rank            what the embeddings say about the two
    topic   = tanh(q @ topics)                              what the request is about
    hidden  = relu([s', pair, topic] @ hidden + bias)
    help, harm = sigmoid(hidden @ out + s' @ direct + bias) @ mean_effects
    alone   = sigmoid(topic @ alone + bias) @ mean_alone    quality without any
    with    = alone * (1 - harm) + (1 - alone) * help       quality with this example by itself

and both qualities' log-odds times slope plus offset. Several networks that were fitted apart stand side by side in the same
matrices (`side_by_side`), and their effects are averaged.

The low rank is what keeps a thousand embedding products from being learnt by heart by a few hundred outcomes; `direct`
is the logistic regression that the scalars would make by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from router.scorer_artifact import Declared
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
    from onnx import TensorProto, helper, numpy_helper

    dimensions = len(weights["topics"])
    constants = [numpy_helper.from_array(np.ascontiguousarray(weights[name]), name) for name in SHAPES]
    constants.append(numpy_helper.from_array(np.array([-1], np.int64), "flat"))
    held = {"least": -MOST_SPREADS, "most": MOST_SPREADS, "one": 1.0, "low": EPSILON, "high": 1 - EPSILON}
    constants += [numpy_helper.from_array(np.array(value, np.float32), name) for name, value in held.items()]

    def node(kind: str, inputs: str, output: str, **attributes: int) -> object:
        return helper.make_node(kind, inputs.split(), [output], **attributes)

    nodes = [
        node("Mul", "request example_questions", "product"),
        node("Sub", "request example_questions", "difference"),
        node("Abs", "difference", "distance"),
        node("Mul", "request example_answers", "answer_product"),
        node("Concat", "product distance answer_product", "pairs", axis=1),
        node("MatMul", "pairs low_rank", "pair"),
        node("MatMul", "request topics", "topic_logits"),
        node("Tanh", "topic_logits", "topic"),
        node("Mul", "scalars scale", "scaled"),
        node("Add", "scaled shift", "shifted"),
        node("Clip", "shifted least most", "normal"),
        node("MatMul", "normal hidden_scalars", "from_scalars"),
        node("MatMul", "pair hidden_pair", "from_pair"),
        node("MatMul", "topic hidden_topic", "from_topic"),
        node("Add", "from_topic hidden_bias", "from_request"),
        node("Add", "from_scalars from_pair", "from_example"),
        node("Add", "from_example from_request", "before"),
        node("Relu", "before", "hidden"),
        node("MatMul", "hidden out", "by_hidden"),
        node("MatMul", "normal direct", "by_scalars"),
        node("Add", "by_hidden by_scalars", "by_both"),
        node("Add", "by_both out_bias", "effect_logits"),
        node("Sigmoid", "effect_logits", "all_effects"),
        node("MatMul", "all_effects mean_effects", "effects"),
        node("MatMul", "topic alone", "by_topic"),
        node("Add", "by_topic alone_bias", "alone_logits"),
        node("Sigmoid", "alone_logits", "all_without"),
        node("MatMul", "all_without mean_alone", "without_column"),
        node("Reshape", "without_column flat", "without"),
        # Of the two columns, (1 - alone) of the help comes on top and alone of the harm goes off.
        node("Sub", "one without", "wrong"),
        node("Neg", "without", "less"),
        node("Concat", "wrong less", "shares", axis=0),
        node("MatMul", "effects shares", "gains"),
        node("Add", "gains without", "with_one"),
        *(
            step
            for given, name in (("with_one", "quality_with"), ("without", "quality_alone"))
            for step in (
                node("Clip", f"{given} low high", f"{name}_held"),
                node("Sub", f"one {name}_held", f"{name}_not"),
                node("Div", f"{name}_held {name}_not", f"{name}_odds"),
                node("Log", f"{name}_odds", f"{name}_logit"),
                node("Mul", f"{name}_logit slope", f"{name}_sloped"),
                node("Add", f"{name}_sloped offset", f"{name}_line"),
                node("Sigmoid", f"{name}_line", name),
            )
        ),
    ]
    f32 = TensorProto.FLOAT
    inputs = [
        helper.make_tensor_value_info("request", f32, [1, dimensions]),
        helper.make_tensor_value_info("example_questions", f32, ["n", dimensions]),
        helper.make_tensor_value_info("example_answers", f32, ["n", dimensions]),
        helper.make_tensor_value_info("scalars", f32, ["n", len(NAMES)]),
    ]
    outputs = [
        helper.make_tensor_value_info("quality_with", f32, ["n"]),
        helper.make_tensor_value_info("quality_alone", f32, [1]),
    ]
    graph = helper.make_graph(nodes, "scorer", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    said = Declared(
        "features",
        dimensions=dimensions,
        features_version=VERSION,
        features_names=NAMES,
        embedding_version=embedding_version,
    )
    helper.set_model_props(model, said.metadata())
    return bytes(model.SerializeToString(deterministic=True))
