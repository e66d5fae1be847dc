"""Requests and candidates to score, for the scorer's tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from router.embedding.model import locate
from router.examples.features import NAMES, VERSION, RequestView
from router.examples.rarity import Rarity
from router.examples.scorer_artifact import Declared
from router.plan import Candidate
from store.records import Example, Vector

DIMENSIONS = 8
REQUEST = "What is the population of Eastwick?"
QUESTIONS = (
    "population of Eastwick?",
    "What is the population of Westwick, as of 1999?",
    "When was the QX-410 launched?",
    "Sort these words: pear, apple.",
)


def rarity() -> Rarity:
    return Rarity.read(locate("package") / "tokenizer.json")


def unit(seed: int, dimensions: int = DIMENSIONS) -> Vector:
    vector = np.random.default_rng(seed).standard_normal(dimensions).astype(np.float32)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def example(number: int = 1, **changes: Any) -> Example:
    fields: dict[str, Any] = {
        "id": number,
        "seq": number,
        "tenant": "t",
        "scope": "s",
        "question": QUESTIONS[number % len(QUESTIONS)],
        "answer": f"It is {number},000.",
        "source_engine": "large",
        "created_at_s": 1000.0,
    }
    return Example(**(fields | changes))


def candidates(count: int = 4) -> list[Candidate]:
    return [
        Candidate(example(i), 0.9 - 0.1 * i, unit(10 + i), unit(50 + i) if i % 2 else None)
        for i in range(count)
    ]


def request(text: str = REQUEST) -> RequestView:
    return RequestView(text, unit(1), "large", 0.1)


def features_declared(**changes: Any) -> dict[str, str]:
    fields: dict[str, Any] = {
        "dimensions": DIMENSIONS,
        "features_version": VERSION,
        "features_names": NAMES,
    }
    return Declared(**(fields | changes)).metadata()


def former_signature() -> dict[str, str]:
    """What a scorer of earlier versions declared, which read texts."""
    return features_declared() | {"understudy.scorer.signature": "cross_encoder"}


def features_model(
    path: Path,
    *,
    metadata: Mapping[str, str] | None = None,
    scale: float = 1.0,
    width: int = len(NAMES),
    input_name: str = "scalars",
    rows: str = "keep",
    harm: float | None = None,
) -> Path:
    """quality_with = scale x the similarity, quality_alone = 0.25: a whole model in five nodes.

    `harm`: it also tells effects, quality_with as help and so much of it as harm.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    column = np.zeros((width, 1), np.float32)
    column[0, 0] = scale
    constants = [
        numpy_helper.from_array(column, "column"),
        numpy_helper.from_array(np.array([-1], np.int64), "flat"),
        numpy_helper.from_array(np.array([0.25], np.float32), "quarter"),
        numpy_helper.from_array(np.array([0], np.int64), "nought"),
        numpy_helper.from_array(np.array([1], np.int64), "one"),
    ]
    nodes = [
        helper.make_node("MatMul", [input_name, "column"], ["weighed"]),
        helper.make_node("Reshape", ["weighed", "flat"], ["row"]),
        helper.make_node("Identity", ["row"], ["quality_with"])
        if rows == "keep"
        else helper.make_node("Slice", ["row", "nought", "one"], ["quality_with"]),
        helper.make_node("Identity", ["quarter"], ["quality_alone"]),
    ]
    f32 = TensorProto.FLOAT
    effects = []
    if harm is not None:
        constants.append(numpy_helper.from_array(np.array(harm, np.float32), "harm"))
        nodes += [
            helper.make_node("Identity", ["quality_with"], ["helps"]),
            helper.make_node("Mul", ["quality_with", "harm"], ["harms"]),
        ]
        effects = [helper.make_tensor_value_info(name, f32, ["m"]) for name in ("helps", "harms")]
    ports = [
        helper.make_tensor_value_info("request", f32, [1, "d"]),
        helper.make_tensor_value_info("example_questions", f32, ["n", "d"]),
        helper.make_tensor_value_info("example_answers", f32, ["n", "d"]),
        helper.make_tensor_value_info(input_name, f32, ["n", width]),
    ]
    outputs = [
        helper.make_tensor_value_info("quality_with", f32, ["m"]),
        helper.make_tensor_value_info("quality_alone", f32, [1]),
        *effects,
    ]
    graph = helper.make_graph(nodes, "features", ports, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    helper.set_model_props(model, dict(features_declared() if metadata is None else metadata))
    onnx.save(model, path)
    return path
