"""A student's layers as arrays, and the ONNX model made of them: two products, and for a network a third.

The columns of an input are few of many, so the model gathers their rows of weights instead of multiplying by all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from router.tasks.form import normalised
from router.tasks.student import Declared

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_OPSET, _IR = 20, 10


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

    def logits(self, columns: Any, vectors: npt.NDArray[np.float32]) -> Floats:
        """(rows, labels) for a sparse matrix of columns and the embeddings."""
        found: Floats = columns @ self.of_columns + vectors @ self.of_vector + self.bias
        if self.last is not None and self.last_bias is not None:
            found = np.maximum(found, 0.0) @ self.last + self.last_bias
        return found

    def tempered(self, temperature: float) -> Layers:
        """The same with logits divided by `temperature`."""
        if self.last is None or self.last_bias is None:
            return Layers(
                self.of_columns / temperature, self.of_vector / temperature, self.bias / temperature
            )
        return replace(self, last=self.last / temperature, last_bias=self.last_bias / temperature)

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
    """An ONNX model: `columns` (n,) int32, `values` (1, n), `vector` (1, dimensions) in; `logs` (1, labels), natural
    logarithms, and `similarity` (1,), the largest cosine to a row of `sample`, out. Weights of columns are float16."""
    from onnx import TensorProto, checker, helper, numpy_helper

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
