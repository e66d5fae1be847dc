"""The scorer used before anything is learnt: nearness of the questions, and a little of what else tells one from another.

worth = similarity + the weights below x words that the questions share (BM25), likeness of the request to the answer, and
words of the request that the answer says: of questions that are worded alike, the answer about what is asked names it.
Scores are added instead of reciprocal ranks, which on recorded requests put labels of other intents before those of nearer
ones. The weights were chosen by cross-validation over recorded files (docs/experiments/choosing-examples.md). Needs `onnx`.
"""

from __future__ import annotations

from router.examples.features import NAMES
from router.examples.scorer import Declared

WEIGHTS = {"similarity": 1.0, "words": 0.05, "answer_similarity": 0.05, "request_answered": 0.2}
"""By feature; of every other 0."""


def prior_weights() -> list[float]:
    """One weight per feature."""
    return [WEIGHTS.get(name, 0.0) for name in NAMES]


def prior_model() -> bytes:
    """The ONNX model; the same bytes every time."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    constants = [
        numpy_helper.from_array(np.array(prior_weights(), np.float32).reshape(-1, 1), "weights"),
        numpy_helper.from_array(np.array(1.0 / sum(WEIGHTS.values()), np.float32), "scale"),
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
