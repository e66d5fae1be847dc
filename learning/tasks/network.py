"""A student's layers as arrays, and the ONNX model made of them: two products, for a network a third, and for an encoder
its last layers, whose logits are added to those of the products.

The columns of an input are few of many, so the model gathers their rows of weights instead of multiplying by all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from router.embedding import minilm_onnx
from router.embedding.minilm_onnx import Shape
from router.embedding.onnx_session import load
from router.tasks.form import normalised
from router.tasks.student import Declared

if TYPE_CHECKING:
    import numpy.typing as npt

    from router.embedding.trunk import States

    Floats = npt.NDArray[np.float64]

_OPSET, _IR = 20, 10


@dataclass(frozen=True, slots=True)
class LastLayers:
    """The last layers of a sentence encoder, fine-tuned, with a layer of labels on top."""

    model: bytes
    """ONNX in int8: from `states`, float32 (1, tokens, hidden), to `labels_encoded`, float32 (1, labels)."""
    scale: float = 1.0
    """The factor of its logits."""

    def logits(self, states: Sequence[States]) -> Floats:
        """(rows, labels), as they are when the student answers."""
        session = load(self.model)
        rows = [session.run(None, {"states": each})[0][0] for each in states]
        return self.scale * np.stack(rows).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Layers:
    """Weights from hashed columns and embedding to labels, or to a hidden layer with ReLU and from there to labels."""

    of_columns: Floats
    """(columns, first layer)"""
    of_vector: Floats
    """(dimensions, first layer)"""
    bias: Floats
    last: Floats | None = None
    """(first layer, labels); None if the first layer is the labels."""
    last_bias: Floats | None = None
    encoder: LastLayers | None = None

    def logits(self, columns: Any, vectors: npt.NDArray[np.float32], states: Sequence[States] = ()) -> Floats:
        """(rows, labels) for a sparse matrix of columns, the embeddings and, for an encoder, hidden states."""
        found: Floats = columns @ self.of_columns + vectors @ self.of_vector + self.bias
        if self.last is not None and self.last_bias is not None:
            found = np.maximum(found, 0.0) @ self.last + self.last_bias
        return found if self.encoder is None else found + self.encoder.logits(states)

    def tempered(self, temperature: float) -> Layers:
        """The same with logits divided by `temperature`."""
        encoder = self.encoder and replace(self.encoder, scale=self.encoder.scale / temperature)
        if self.last is None or self.last_bias is None:
            return Layers(
                self.of_columns / temperature,
                self.of_vector / temperature,
                self.bias / temperature,
                encoder=encoder,
            )
        return replace(
            self, last=self.last / temperature, last_bias=self.last_bias / temperature, encoder=encoder
        )

    def relabelled(self, before: Declared, labels: Sequence[str]) -> Layers:
        """A network that was `tempered`, without that, for `labels`: those it did not know start from nothing."""
        assert self.last is not None and self.last_bias is not None
        place = {normalised(label): n for n, label in enumerate(before.labels)}
        last, bias = np.zeros((self.last.shape[0], len(labels))), np.full(len(labels), self.last_bias.min())
        for n, label in enumerate(labels):
            if (known := place.get(normalised(label))) is not None:
                last[:, n], bias[n] = self.last[:, known], self.last_bias[known]
        return replace(self, last=last * before.temperature, last_bias=bias * before.temperature)

    def give_to(
        self, model: Any, chosen: npt.NDArray[np.int64], scales: npt.NDArray[np.float32], classes: Any
    ) -> None:
        """Put a network's weights into a scikit-learn model that reads the `chosen` columns, each scaled."""
        assert self.last is not None and self.last_bias is not None
        inner = np.vstack([self.of_columns[chosen] / scales[chosen, None], self.of_vector])
        outer, bias = self.last[:, classes], self.last_bias[classes]
        if len(classes) == 2:
            outer, bias = outer[:, 1:] - outer[:, :1], bias[1:] - bias[:1]
        model.coefs_ = [inner.astype(np.float32), outer.astype(np.float32)]
        model.intercepts_ = [self.bias.astype(np.float32), bias.astype(np.float32)]

    @classmethod
    def read(cls, data: bytes) -> Layers:
        """The layers of a model that `written` made."""
        import onnx
        from onnx import numpy_helper

        found = {i.name: numpy_helper.to_array(i) for i in onnx.load_from_string(data).graph.initializer}
        parts = [found[name].astype(np.float64) for name in _NAMES if name in found]
        return cls(*(part[0] if part.shape[0] == 1 else part for part in parts))


_NAMES = ("of_columns", "of_vector", "bias", "last", "last_bias")


def written(layers: Layers, sample: npt.NDArray[np.float32], declared: Declared) -> bytes:
    """An ONNX model: `columns` (n,) int32, `values` (1, n), `vector` (1, dimensions) and, for an encoder, `states`
    (1, tokens, hidden) in; `logs` (1, labels), natural
    logarithms, and `similarity` (1,), the largest cosine to a row of `sample`, out. Weights of columns are float16."""
    from onnx import TensorProto, checker, helper, load_from_string, numpy_helper

    def constant(name: str, values: Any, kind: type[np.floating[Any]] = np.float32) -> Any:
        return numpy_helper.from_array(np.ascontiguousarray(values.astype(kind)), name)

    node = helper.make_node
    constants = [
        constant("of_columns", layers.of_columns, np.float16),
        constant("of_vector", layers.of_vector),
        constant("bias", layers.bias[None]),
        constant("sample", sample.T, np.float16),
        numpy_helper.from_array(np.array([1]), "of_a_row"),
    ]
    nodes = [
        node("Gather", ["of_columns", "columns"], ["rows16"]),
        node("Cast", ["rows16"], ["rows"], to=TensorProto.FLOAT),
        node("MatMul", ["values", "rows"], ["by_columns"]),
        node("Gemm", ["vector", "of_vector", "bias"], ["by_vector"]),
        node("Add", ["by_columns", "by_vector"], ["first"]),
        node("Cast", ["sample"], ["sample32"], to=TensorProto.FLOAT),
        node("MatMul", ["vector", "sample32"], ["similarities"]),
        node("ReduceMax", ["similarities", "of_a_row"], ["similarity"], keepdims=0),
    ]
    logits = "first"
    if layers.last is not None and layers.last_bias is not None:
        constants += [constant("last", layers.last), constant("last_bias", layers.last_bias[None])]
        nodes += [
            node("Relu", ["first"], ["hidden"]),
            node("Gemm", ["hidden", "last", "last_bias"], ["second"]),
        ]
        logits = "second"
    kinds = {"columns": TensorProto.INT32, "values": TensorProto.FLOAT, "vector": TensorProto.FLOAT}
    shapes: dict[str, list[Any]] = {
        "columns": ["n"],
        "values": [1, "n"],
        "vector": [1, layers.of_vector.shape[0]],
    }
    if layers.encoder is not None:
        encoder = load_from_string(layers.encoder.model).graph
        constants += [*encoder.initializer, constant("encoder_scale", np.array(layers.encoder.scale))]
        nodes += [
            *encoder.node,
            node("Mul", ["labels_encoded", "encoder_scale"], ["by_encoder"]),
            node("Add", [logits, "by_encoder"], ["both"]),
        ]
        logits = "both"
        kinds["states"] = TensorProto.FLOAT
        shapes["states"] = [1, "tokens", encoder.input[0].type.tensor_type.shape.dim[2].dim_value]
    nodes.append(node("LogSoftmax", [logits], ["logs"], axis=1))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "student",
        [value(name, kinds[name], shapes[name]) for name in kinds],
        [
            value("logs", TensorProto.FLOAT, [1, len(declared.labels)]),
            value("similarity", TensorProto.FLOAT, [1]),
        ],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)
    helper.set_model_props(model, declared.metadata())
    checker.check_model(model)
    return bytes(model.SerializeToString())


def last_layers(
    weights: Mapping[str, npt.NDArray[np.float32]], shape: Shape, first: int, head: Floats, bias: Floats
) -> LastLayers:
    """The encoder's layers from `first` on with `head`, (hidden, labels), and `bias` behind them, in int8 with a scale per
    output channel."""
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime.quantization import QuantType, quantize_dynamic

    nodes, constants = minilm_onnx.build_last_layers(weights, shape, first)
    constants += [
        numpy_helper.from_array(head.astype(np.float32), "of_encoded"),
        numpy_helper.from_array(bias[None].astype(np.float32), "encoded_bias"),
    ]
    nodes.append(helper.make_node("Gemm", ["encoded", "of_encoded", "encoded_bias"], ["labels_encoded"]))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "last layers",
        [value("states", TensorProto.FLOAT, [1, "tokens", shape.hidden])],
        [value("labels_encoded", TensorProto.FLOAT, [1, len(bias)])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)
    # There is nothing to fold or to fuse in it, and quantising says so at length where this is missing.
    helper.set_model_props(model, {"onnx.quant.pre_process": "onnxruntime.quant"})
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "model.onnx"
        quantize_dynamic(
            model,
            out,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            weight_type=QuantType.QInt8,
            extra_options={"MatMulConstBOnly": True, "DefaultTensorType": TensorProto.FLOAT},
        )
        return LastLayers(out.read_bytes())
