"""The scorer used before anything is learnt: a linear model with weights set by judgement, not by measurement.

An example is assumed to help more the more rare words (names, numbers, identifiers) its question shares with the request,
the nearer it is, and the better its answer was judged; more of any of these never lowers the estimate. Below a certain
overlap it is expected to do a little harm, so no example is sent. The model's metadata says that it is a prior. Needs
`onnx` only.
"""

from __future__ import annotations

from collections.abc import Mapping

from router.examples.features import NAMES, PLACE, VERSION
from router.examples.scorer_artifact import Declared

ALONE = 0.3
"""Quality assumed of a small engine without examples."""

WEIGHTS: Mapping[str, float] = {
    "similarity": 3.0,
    "request_covered": 0.5,
    "example_covered": 0.5,
    "request_rare_covered": 2.0,
    "example_rare_covered": 2.0,
    "rarest_of_request_only": -0.5,
    "rarest_of_example_only": -0.5,
    "numbers_conflict": -1.5,
    "names_disagree": -1.0,
    "quality": 1.0,
    "demonstration": 0.3,
    "from_reference": 0.2,
    "flagged": -0.5,
}
"""Log-odds of a right answer per unit of the feature."""

BIAS = -4.5
"""Chosen so that an example of unknown quality, half as rare-covered and at a cosine of about 0.5, changes nothing."""


def prior_model() -> bytes:
    """The ONNX model, some kilobytes; the same bytes every time. Fits embeddings of any size, since it uses none."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    weights = np.zeros((len(NAMES), 1), np.float32)
    for name, weight in WEIGHTS.items():
        weights[PLACE[name], 0] = weight
    constants = [
        numpy_helper.from_array(weights, "weights"),
        numpy_helper.from_array(np.array(BIAS, np.float32), "bias"),
        numpy_helper.from_array(np.array([-1], np.int64), "flat"),
        numpy_helper.from_array(np.array([ALONE], np.float32), "assumed"),
    ]
    nodes = [
        helper.make_node("MatMul", ["scalars", "weights"], ["weighed"]),
        helper.make_node("Reshape", ["weighed", "flat"], ["row"]),
        helper.make_node("Add", ["row", "bias"], ["logit"]),
        helper.make_node("Sigmoid", ["logit"], ["quality_with"]),
        helper.make_node("Identity", ["assumed"], ["quality_alone"]),
    ]
    f32 = TensorProto.FLOAT
    inputs = [
        helper.make_tensor_value_info("scalars", f32, ["n", len(NAMES)]),
    ]
    outputs = [
        helper.make_tensor_value_info("quality_with", f32, ["n"]),
        helper.make_tensor_value_info("quality_alone", f32, [1]),
    ]
    graph = helper.make_graph(nodes, "scorer_prior", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    said = Declared(features_version=VERSION, features_names=NAMES, prior=True)
    helper.set_model_props(model, said.metadata())
    return bytes(model.SerializeToString(deterministic=True))
