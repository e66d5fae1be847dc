"""Builds the ONNX graph of a BERT sentence encoder from its weights: safetensors in, ONNX out, without torch.

The graph takes one text at a time and therefore needs no padding and no attention mask: the input is `input_ids`, int64
(1, tokens), the output `embedding`, float32 (1, hidden) of unit length. There are two number formats: f32, the reference,
and int8 with one scale per output channel, which is served. A GPU gets f32 for a batch of texts: `input_ids` is (texts,
tokens), and `attention_mask`, float32 (texts, tokens), is 1 for a token and 0 for padding. Network: Devlin et al. 2018,
"BERT", section 3 (post-norm encoder, exact GELU); sentence vector: Reimers & Gurevych 2019, "Sentence-BERT", section 3
(mean of the token vectors).
router/embedding/model.py knows where weights and models are kept, and runs this file as a program
(`python -m router.embedding.minilm_onnx FOLDER OUT`), so that the f32 weights are freed with that process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Weights = Mapping[str, npt.NDArray[np.float32]]

BUILD = 1
"""Raised whenever the same weights would give other embeddings: it is part of every embedding's version."""

MASK = "attention_mask"
"""The input that a graph has which takes a batch of texts."""

OPSET = 20
IR_VERSION = 9
LEAST_AGREEMENT = 0.9
"""Cosine of int8 with f32 below which the arithmetic is broken (saturating multiplies), not merely rounded."""


class UnsuitableModel(ValueError):
    """The folder holds a model that this builder cannot express. The text names the setting or tensor."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of the network, from `config.json`."""

    hidden: int
    heads: int
    layers: int
    positions: int
    vocabulary: int
    epsilon: float


def read_shape(folder: Path) -> Shape:
    """The network's sizes from `folder`. Raises UnsuitableModel if it is not a mean-pooled BERT with exact GELU."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        raise UnsuitableModel(f"{folder}/config.json: {type(config).__name__} is not an object")
    expected = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
    for key, right in expected.items():
        if (value := config.get(key, right)) != right:
            raise UnsuitableModel(f"{folder}/config.json: {key} is {value!r}; only {right!r} is supported")
    pooling_path = folder / "1_Pooling" / "config.json"
    if pooling_path.is_file():
        pooling = json.loads(pooling_path.read_text(encoding="utf-8"))
        modes = [key for key, on in pooling.items() if key.startswith("pooling_mode_") and on is True]
        if modes != ["pooling_mode_mean_tokens"]:
            raise UnsuitableModel(
                f"{pooling_path}: pooling is {modes}; only pooling_mode_mean_tokens is supported"
            )
    try:
        return Shape(
            hidden=int(config["hidden_size"]),
            heads=int(config["num_attention_heads"]),
            layers=int(config["num_hidden_layers"]),
            positions=int(config["max_position_embeddings"]),
            vocabulary=int(config["vocab_size"]),
            epsilon=float(config["layer_norm_eps"]),
        )
    except KeyError as missing:
        raise UnsuitableModel(f"{folder}/config.json: {missing} is missing") from None


class _Graph:
    """Collects nodes and constants; `op` returns the names of a node's outputs."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def constant(self, name: str, array: npt.ArrayLike) -> str:
        import numpy as np
        from onnx import numpy_helper

        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def weight(self, name: str) -> npt.NDArray[np.float32]:
        import numpy as np

        try:
            return self._weights[name].astype(np.float32)
        except KeyError:
            raise UnsuitableModel(f"model.safetensors: tensor {name!r} is missing") from None

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        from onnx import helper

        label = f"{kind}_{len(self.nodes)}"
        names = [f"{label}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=label, **attributes))
        return names

    def one(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.op(kind, *inputs, **attributes)[0]

    def norm(self, x: str, prefix: str, epsilon: float) -> str:
        scale = self.constant(f"{prefix}.weight", self.weight(f"{prefix}.weight"))
        shift = self.constant(f"{prefix}.bias", self.weight(f"{prefix}.bias"))
        return self.one("LayerNormalization", x, scale, shift, axis=-1, epsilon=epsilon)

    def affine(self, x: str, name: str, matrix: npt.ArrayLike, shift: npt.ArrayLike) -> str:
        product = self.one("MatMul", x, self.constant(f"{name}.weight", matrix))
        return self.one("Add", product, self.constant(f"{name}.bias", shift))

    def dense(self, x: str, prefix: str) -> str:
        return self.affine(x, prefix, self.weight(f"{prefix}.weight").T, self.weight(f"{prefix}.bias"))


def build_graph(weights: Weights, shape: Shape, *, batch: bool = False) -> Any:
    """The f32 encoder as an `onnx.ModelProto`, of one text or of a batch.

    `weights` maps the names of a Hugging Face `BertModel` checkpoint to arrays. Raises UnsuitableModel for a
    missing tensor.
    """
    from onnx import TensorProto, helper

    graph = _Graph(weights)
    mask = MASK if batch else None
    padding = None if mask is None else _padding(graph, mask)
    x = _embed_tokens(graph, shape)
    for layer in range(shape.layers):
        x = _encoder_layer(graph, x, f"encoder.layer.{layer}", shape, padding)
    _pool(graph, x, "embedding", mask)
    texts = "texts" if batch else 1
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [texts, "tokens"])]
    if mask is not None:
        inputs.append(helper.make_tensor_value_info(mask, TensorProto.FLOAT, [texts, "tokens"]))
    vector = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [texts, shape.hidden])
    body = helper.make_graph(graph.nodes, "encoder", inputs, [vector], list(graph.constants.values()))
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def _padding(graph: _Graph, mask: str) -> str:
    """What is added to attention scores, (texts, 1, 1, tokens): 0 for a token, -1e9 for padding, which gets no weight."""
    import numpy as np

    absent = graph.one("Sub", mask, graph.constant("one", np.float32(1)))
    scores = graph.one("Mul", absent, graph.constant("no_weight", np.float32(1e9)))
    return graph.one("Unsqueeze", scores, graph.constant("axes_heads", _ints(1, 2)))


def _pool(graph: _Graph, x: str, name: str, mask: str | None) -> None:
    """The mean over tokens, of unit length."""
    from onnx import helper

    if mask is not None:
        column = graph.one("Unsqueeze", mask, graph.constant("axis_last", _ints(2)))
        x = graph.one("Mul", x, column)
    # The mean counts padding, too; the unit length takes that factor out again.
    pooled = graph.one("ReduceMean", x, graph.constant("axis_tokens", _ints(1)), keepdims=0)
    graph.nodes.append(helper.make_node("LpNormalization", [pooled], [name], axis=-1, p=2))


def _embed_tokens(graph: _Graph, shape: Shape) -> str:
    words = graph.constant("words", graph.weight("embeddings.word_embeddings.weight"))
    x = graph.one("Gather", words, "input_ids")
    # Every text is one segment, so its type embedding is the same at every position and joins the position table.
    places = graph.weight("embeddings.position_embeddings.weight")
    places = places + graph.weight("embeddings.token_type_embeddings.weight")[0]
    length = graph.one("Shape", "input_ids", start=1, end=2)
    head = graph.one("Slice", graph.constant("places", places), graph.constant("zero", _ints(0)), length)
    return graph.norm(graph.one("Add", x, head), "embeddings.LayerNorm", shape.epsilon)


def _encoder_layer(graph: _Graph, x: str, prefix: str, shape: Shape, padding: str | None) -> str:
    import numpy as np

    width = shape.hidden // shape.heads
    attention = f"{prefix}.attention.self"
    matrices = [graph.weight(f"{attention}.{part}.weight").T for part in ("query", "key", "value")]
    shifts = [graph.weight(f"{attention}.{part}.bias") for part in ("query", "key", "value")]
    # The 1/sqrt(width) of the attention scores is folded into the queries: one multiplication less per layer.
    matrices[0], shifts[0] = matrices[0] * width**-0.5, shifts[0] * width**-0.5
    joined = graph.affine(
        x,
        f"{attention}.joined",
        np.concatenate(matrices, 1).astype(np.float32),
        np.concatenate(shifts).astype(np.float32),
    )
    parts = graph.op("Split", joined, outputs=3, axis=-1, num_outputs=3)
    by_head = graph.constant("by_head", _ints(0, 0, shape.heads, width))
    query, key, value = (
        graph.one("Transpose", graph.one("Reshape", part, by_head), perm=order)
        for part, order in zip(parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True)
    )
    scores = graph.one("MatMul", query, key)
    if padding is not None:
        scores = graph.one("Add", scores, padding)
    attended = graph.one("MatMul", graph.one("Softmax", scores, axis=-1), value)
    together = graph.constant("together", _ints(0, 0, shape.hidden))
    heads = graph.one("Reshape", graph.one("Transpose", attended, perm=[0, 2, 1, 3]), together)
    x = graph.one("Add", graph.dense(heads, f"{prefix}.attention.output.dense"), x)
    x = graph.norm(x, f"{prefix}.attention.output.LayerNorm", shape.epsilon)
    inner = graph.one("Gelu", graph.dense(x, f"{prefix}.intermediate.dense"), approximate="none")
    x = graph.one("Add", graph.dense(inner, f"{prefix}.output.dense"), x)
    return graph.norm(x, f"{prefix}.output.LayerNorm", shape.epsilon)


def _ints(*values: int) -> npt.NDArray[np.int64]:
    import numpy as np

    return np.array(values, np.int64)


def write_int8(folder: Path, out: Path) -> None:
    """Writes the int8 model of the weights in `folder`: one scale per output channel, activations scaled dynamically.

    Takes a second or two and some 500 MB. Raises UnsuitableModel if the result does not agree with f32 on this
    processor.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    reference = read_graph(folder)
    f32_model = reference.SerializeToString()
    options = {"MatMulConstBOnly": True, "DefaultTensorType": 1}
    # One scale for a whole matrix costs a sixth of the nearest neighbours; one per channel, a twelfth.
    quantize_dynamic(
        reference,
        out,
        op_types_to_quantize=["MatMul", "Gather"],
        per_channel=True,
        weight_type=QuantType.QInt8,
        extra_options=options,
    )
    worst = _least_agreement(f32_model, out, read_shape(folder))
    if not worst >= LEAST_AGREEMENT:
        raise UnsuitableModel(
            f"{folder}: int8 agrees with f32 only to a cosine of {worst:.3f} on this processor"
        )


def write_f32_batch(folder: Path, out: Path) -> None:
    """Writes the model of the weights in `folder` in f32, for batches: for a GPU, which has no kernels for int8."""
    import onnx

    onnx.save(read_graph(folder, batch=True), out)


def read_graph(folder: Path, *, batch: bool = False) -> Any:
    from safetensors.numpy import load_file

    return build_graph(load_file(folder / "model.safetensors"), read_shape(folder), batch=batch)


def _least_agreement(f32_model: bytes, int8_model: Path, shape: Shape) -> float:
    """The smallest cosine between int8 and f32 vectors over a few texts of random tokens."""
    import numpy as np
    import onnxruntime

    generator = np.random.default_rng(0)
    providers = ["CPUExecutionProvider"]
    f32, int8 = (onnxruntime.InferenceSession(m, providers=providers) for m in (f32_model, str(int8_model)))
    cosines = []
    for length in (4, 16, 64):
        ids = generator.integers(0, shape.vocabulary, (1, min(length, shape.positions)))
        vectors = [session.run(None, {"input_ids": ids})[0][0] for session in (f32, int8)]
        cosines.append(float(vectors[0] @ vectors[1]))
    return min(cosines)


if __name__ == "__main__":
    write = write_f32_batch if sys.argv[3:] == ["f32-batch"] else write_int8
    try:
        write(Path(sys.argv[1]), Path(sys.argv[2]))
    except UnsuitableModel as unsuitable:
        sys.exit(str(unsuitable))
