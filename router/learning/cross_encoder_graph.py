"""A trained cross-encoder's weights, written down as an ONNX graph with the `cross_encoder` signature. Needs no torch.

The first layers of a sentence encoder read request and example together (Nogueira, Cho 2019, "Passage Re-ranking with BERT",
section 2: "[CLS] request [SEP] example [SEP]"), and a head says what the example does:

    x       = layer norm of word + position + type + match * (the token is in the other text as well)
    h       = encoder layers of x
    pooled  = [h of CLS, mean h of the request, mean h of the example]
    hidden  = tanh(pooled @ hidden + bias)
    help, harm = sigmoid(hidden @ effects + bias)           of every row
    alone   = sigmoid(pooled @ alone + bias)                of the first row, whose example is empty
    quality = alone                                         first row
            = alone * (1 - harm) + (1 - alone) * help       every other row

and the log-odds of every quality times slope plus offset. Marking what occurs in both texts spares a shallow encoder from
having to learn to compare words (Boualili, Moreno, Boughanem 2020, "MarkedBERT", section 3). The tables of the words are
kept in 16-bit floats: they are not trained, and are two thirds of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from router.embedding.minilm_onnx import IR_VERSION, OPSET, Shape, _encoder_layer, _Graph
from router.examples.scorer_artifact import Declared
from router.examples.set_quality import EPSILON

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    Weights = Mapping[str, npt.NDArray[np.float32]]

HEAD = (
    "match",
    "head.hidden.weight",
    "head.hidden.bias",
    "head.effects.weight",
    "head.effects.bias",
    "head.alone.weight",
    "head.alone.bias",
    "slope",
    "offset",
)
"""Weights beside the encoder's, which have their names of the checkpoint. (hidden,), (3 hidden, h), (h,), (h, 2), (2,),
(3 hidden, 1), (1,), (1,), (1,)."""
NOWHERE = -10_000.0
"""Added to the attention that padding would get."""


class _Padded(_Graph):
    """Every softmax of an encoder layer is over the tokens of a row: padding gets nothing of it."""

    padding = ""

    def one(self, kind: str, *inputs: str, **attributes: Any) -> str:
        if kind == "Softmax":
            inputs = (super().one("Add", inputs[0], self.padding),)
        return super().one(kind, *inputs, **attributes)

    def number(self, name: str, *values: float) -> str:
        return self.constant(name, np.array(values if len(values) > 1 else values[0], np.float32))

    def places(self, name: str, *values: int) -> str:
        return self.constant(name, np.array(values, np.int64))


def cross_encoder_model(weights: Weights, shape: Shape, layers: int, separator: int) -> bytes:
    """The model as bytes, with its metadata. `weights`: the encoder's by the names of its checkpoint, and HEAD's.

    `separator`: the id of the token between the texts, which both have and which therefore matches nothing. Raises
    router.embedding.minilm_onnx.UnsuitableModel for a missing tensor.
    """
    from onnx import TensorProto, helper

    graph = _Padded(weights)
    real = graph.one("Cast", "attention_mask", to=TensorProto.FLOAT)
    absent = graph.one("Sub", real, graph.number("one", 1.0))
    nothing = graph.one("Mul", absent, graph.number("nowhere", -NOWHERE))
    graph.padding = graph.one("Unsqueeze", nothing, graph.places("heads_and_queries", 1, 2))
    x = _embedded(graph, shape, separator)
    for layer in range(layers):
        x = _encoder_layer(graph, x, f"encoder.layer.{layer}", shape)
    quality = _head(graph, x, real)
    graph.nodes.append(helper.make_node("Identity", [quality], ["quality"]))
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["pairs", "tokens"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    outputs = [helper.make_tensor_value_info("quality", TensorProto.FLOAT, ["pairs"])]
    body = helper.make_graph(graph.nodes, "cross_encoder", inputs, outputs, list(graph.constants.values()))
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    helper.set_model_props(model, Declared("cross_encoder").metadata())
    return bytes(model.SerializeToString(deterministic=True))


def _embedded(graph: _Padded, shape: Shape, separator: int) -> str:
    from onnx import TensorProto

    def table(name: str) -> str:
        values = graph.weight(f"embeddings.{name}_embeddings.weight").astype(np.float16)
        return graph.constant(name, values)

    words = graph.one("Gather", table("word"), "input_ids")
    length = graph.one("Shape", "input_ids", start=1, end=2)
    places = graph.one("Slice", table("position"), graph.places("at_0", 0), length)
    words, places = (graph.one("Cast", each, to=TensorProto.FLOAT) for each in (words, places))
    types = graph.constant("types", graph.weight("embeddings.token_type_embeddings.weight"))
    x = graph.one("Add", words, places)
    x = graph.one("Add", x, graph.one("Gather", types, "token_type_ids"))
    marks = graph.one("Mul", _matched(graph, separator), graph.constant("match", graph.weight("match")))
    return graph.norm(graph.one("Add", x, marks), "embeddings.LayerNorm", shape.epsilon)


def _matched(graph: _Padded, separator: int) -> str:
    """1 for a token that is in the other text as well; (pairs, tokens, 1)."""
    from onnx import TensorProto

    row, column = graph.places("row", 1), graph.places("column", 2)

    def across(kind: str, array: str) -> str:
        return graph.one(kind, graph.one("Unsqueeze", array, column), graph.one("Unsqueeze", array, row))

    other = graph.one("Not", across("Equal", "token_type_ids"))
    there = graph.one("Cast", graph.one("Unsqueeze", "attention_mask", row), to=TensorProto.BOOL)
    both = graph.one("And", graph.one("And", across("Equal", "input_ids"), other), there)
    found = graph.one("ReduceMax", graph.one("Cast", both, to=TensorProto.FLOAT), column, keepdims=1)
    word = graph.one("Not", graph.one("Equal", "input_ids", graph.places("separator", separator)))
    ordinary = graph.one("Cast", graph.one("Unsqueeze", word, column), to=TensorProto.FLOAT)
    return graph.one("Mul", found, ordinary)


def _head(graph: _Padded, x: str, real: str) -> str:
    from onnx import TensorProto

    def dense(given: str, name: str) -> str:
        weight, bias = (graph.weight(f"head.{name}.{part}") for part in ("weight", "bias"))
        return graph.affine(given, f"head.{name}", weight, bias)

    def mean_over(chosen: str) -> str:
        column = graph.one("Unsqueeze", chosen, graph.places("column", 2))
        total = graph.one("ReduceSum", graph.one("Mul", x, column), graph.places("row", 1), keepdims=0)
        count = graph.one("ReduceSum", chosen, graph.places("row", 1), keepdims=1)
        return graph.one("Div", total, graph.one("Max", count, graph.number("one", 1.0)))

    def part(array: str, first: int, last: int) -> str:
        ends = (graph.places(f"at_{first}", first), graph.places(f"at_{last}", last))
        return graph.one("Slice", array, *ends, graph.places("at_0", 0))

    example = graph.one("Cast", "token_type_ids", to=TensorProto.FLOAT)
    request = graph.one("Sub", real, example)
    beginning = graph.one("Gather", x, graph.places("at_0", 0), axis=1)
    beginning = graph.one("Squeeze", beginning, graph.places("row", 1))
    pooled = graph.one("Concat", beginning, mean_over(request), mean_over(example), axis=1)
    hidden = graph.one("Tanh", dense(pooled, "hidden"))
    effects = graph.one("Sigmoid", dense(hidden, "effects"))
    alone = graph.one("Sigmoid", dense(part(pooled, 0, 1), "alone"))
    one = graph.number("one", 1.0)
    # Of the two columns, (1 - alone) of the help comes on top and alone of the harm goes off.
    shares = graph.one("Concat", graph.one("Sub", one, alone), graph.one("Neg", alone), axis=0)
    gains = graph.one("MatMul", part(effects, 1, np.iinfo(np.int64).max), shares)
    every = graph.one("Concat", alone, graph.one("Add", gains, alone), axis=0)
    held = graph.one("Clip", every, graph.number("low", EPSILON), graph.number("high", 1 - EPSILON))
    odds = graph.one("Log", graph.one("Div", held, graph.one("Sub", one, held)))
    line = graph.one("Mul", odds, graph.constant("slope", graph.weight("slope")))
    line = graph.one("Add", line, graph.constant("offset", graph.weight("offset")))
    flat = graph.one("Reshape", line, graph.places("flat", -1))
    return graph.one("Sigmoid", flat)
