"""The scorer used before anything is learnt: nearness, a little of it by words.

worth = similarity + 0.05 * BM25 as a share of the best candidate's. The sum of scores instead of reciprocal ranks: on
recorded requests the fusion of ranks puts labels of other intents before those of nearer ones, this is never behind the
nearest (docs/experiments/choosing-examples.md). Needs `onnx` only.
"""

from __future__ import annotations

from router.examples.features import NAMES, PLACE
from router.examples.scorer import Declared

WORDS = 0.05
"""Weight of the words against the cosine."""


def prior_weights() -> list[float]:
    """One weight per feature."""
    weights = [0.0] * len(NAMES)
    weights[PLACE["similarity"]], weights[PLACE["words"]] = 1.0, WORDS
    return weights


def prior_model() -> bytes:
    """The ONNX model; the same bytes every time."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    constants = [
        numpy_helper.from_array(np.array(prior_weights(), np.float32).reshape(-1, 1), "weights"),
        numpy_helper.from_array(np.array(1.0 / (1.0 + WORDS), np.float32), "scale"),
        numpy_helper.from_array(np.array(0.0, np.float32), "least"),
        numpy_helper.from_array(np.array(1.0, np.float32), "most"),
    ]
    nodes = [
        helper.make_node("MatMul", ["features", "weights"], ["sum"]),
        helper.make_node("Mul", ["sum", "scale"], ["scaled"]),
        helper.make_node("Clip", ["scaled", "least", "most"], ["worth"]),
    ]
    inputs = [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", len(NAMES)])]
    outputs = [helper.make_tensor_value_info("worth", TensorProto.FLOAT, ["n", 1])]
    graph = helper.make_graph(nodes, "scorer_prior", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, Declared(prior=True).metadata())
    return bytes(model.SerializeToString(deterministic=True))
