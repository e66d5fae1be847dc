"""Requests and candidates to score, for the scorer's tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from router.embedding.model import locate
from router.examples.features import NAMES, RequestView
from router.examples.rarity import Rarity
from router.examples.scorer import Declared
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
        Candidate(example(i), 0.9 - 0.1 * i, unit(10 + i), unit(50 + i) if i % 2 else None, words=float(i))
        for i in range(count)
    ]


def request(text: str = REQUEST) -> RequestView:
    return RequestView(text, unit(1), "large")


def former_metadata() -> dict[str, str]:
    """What a scorer of earlier versions declared."""
    return Declared().metadata() | {"understudy.scorer.format": "1"}


def features_model(
    path: Path,
    *,
    metadata: Mapping[str, str] | None = None,
    scale: float = 1.0,
    width: int = len(NAMES),
    shape: str = "column",
) -> Path:
    """worth = scale x the similarity: a whole model in one node. `shape`: "column", or "one" for a single value."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    column = np.zeros((width, 1), np.float32)
    column[0, 0] = scale
    constants = [numpy_helper.from_array(column, "column")]
    nodes = [helper.make_node("MatMul", ["features", "column"], ["worth"])]
    if shape == "one":
        nodes = [
            helper.make_node("MatMul", ["features", "column"], ["all"]),
            helper.make_node("ReduceMax", ["all"], ["worth"], keepdims=0),
        ]
    ports = [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", width])]
    outputs = [helper.make_tensor_value_info("worth", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "features", ports, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, dict(Declared().metadata() if metadata is None else metadata))
    onnx.save(model, path)
    return path
