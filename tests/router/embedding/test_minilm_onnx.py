"""The ONNX graph against a forward pass in plain numpy, written from the papers and not from the builder."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from safetensors.numpy import load_file, save_file

from router.embedding import model as embedding_model
from router.embedding.minilm_onnx import (
    LEAST_AGREEMENT,
    MASK,
    UnsuitableModel,
    build_graph,
    read_graph,
    read_shape,
    write_int8,
)
from tests.router.embedding.tiny_bert import POSITIONS, TOKENS, tiny_weights, write_tiny_bert

needs_weights = pytest.mark.skipif(
    importlib.util.find_spec(embedding_model.PACKAGE) is None, reason="the weights package is not installed"
)


def reference(weights: dict[str, np.ndarray], heads: int, ids: list[int]) -> np.ndarray:
    """BERT in float64: one sentence, no padding, mean pooling, unit length."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}

    def dense(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        return (
            centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12) * w[f"{name}.weight"]
            + w[f"{name}.bias"]
        )

    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(sum(name.endswith("self.query.weight") for name in w)):
        prefix = f"encoder.layer.{layer}"
        query, key, value = (
            np.stack(np.split(dense(x, f"{prefix}.attention.self.{part}"), heads, axis=-1))
            for part in ("query", "key", "value")
        )
        scores = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1]))
        attended = np.concatenate(list(scores / scores.sum(-1, keepdims=True) @ value), axis=-1)
        x = norm(
            x + dense(attended, f"{prefix}.attention.output.dense"), f"{prefix}.attention.output.LayerNorm"
        )
        inner = dense(x, f"{prefix}.intermediate.dense")
        inner = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        x = norm(x + dense(inner, f"{prefix}.output.dense"), f"{prefix}.output.LayerNorm")
    pooled = x.mean(0)
    return pooled / np.linalg.norm(pooled)


def run(model: Path | bytes, ids: list[int]) -> np.ndarray:
    source = model if isinstance(model, bytes) else str(model)
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    return session.run(None, {"input_ids": np.array([ids], np.int64)})[0][0]


@pytest.mark.parametrize("length", [1, 2, 17, POSITIONS])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_graph_computes_what_the_papers_say_at_every_length(
    tmp_path: Path, seed: int, length: int
) -> None:
    folder = write_tiny_bert(tmp_path / "tiny", seed=seed)
    shape, weights = read_shape(folder), tiny_weights(seed)
    ids = np.random.default_rng(seed).integers(0, len(TOKENS), length).tolist()
    vector = run(build_graph(weights, shape).SerializeToString(), ids)
    np.testing.assert_allclose(vector, reference(weights, shape.heads, ids), atol=2e-6)


def test_a_text_has_the_same_vector_in_any_batch(tmp_path: Path) -> None:
    shape, weights = read_shape(write_tiny_bert(tmp_path / "tiny")), tiny_weights(0)
    generator = np.random.default_rng(3)
    texts = [generator.integers(0, len(TOKENS), length).tolist() for length in (1, 5, POSITIONS, 2)]
    ids, mask = np.zeros((2, len(texts), POSITIONS))
    for row, text in enumerate(texts):
        # What stands at a padded place must not matter.
        ids[row], mask[row, : len(text)] = row, 1
        ids[row, : len(text)] = text
    graph = build_graph(weights, shape, batch=True).SerializeToString()
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    vectors = session.run(None, {"input_ids": ids.astype(np.int64), MASK: mask.astype(np.float32)})[0]
    expected = [reference(weights, shape.heads, text) for text in texts]
    np.testing.assert_allclose(vectors, expected, atol=2e-6)


@needs_weights
def test_the_graph_computes_what_the_papers_say_with_the_real_weights(tmp_path: Path) -> None:
    folder = embedding_model.locate("package")
    onnx.save(read_graph(folder), tmp_path / "f32.onnx")
    ids = [101, 2129, 2079, 1045, 25141, 2026, 20786, 1029, 102]
    expected = reference(load_file(folder / "model.safetensors"), read_shape(folder).heads, ids)
    np.testing.assert_allclose(run(tmp_path / "f32.onnx", ids), expected, atol=2e-6)


def test_int8_is_smaller_points_the_same_way_and_has_unit_length(tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "tiny")
    onnx.save(read_graph(folder), tmp_path / "f32.onnx")
    write_int8(folder, tmp_path / "int8.onnx")
    assert (tmp_path / "int8.onnx").stat().st_size < (tmp_path / "f32.onnx").stat().st_size
    for length in (1, 5, 40):
        ids = np.random.default_rng(length).integers(0, len(TOKENS), length).tolist()
        vector = run(tmp_path / "int8.onnx", ids)
        assert vector @ vector == pytest.approx(1, abs=1e-5)
        # 0.99 where the processor has VNNI; without, products of these weights saturate now and then.
        assert vector @ run(tmp_path / "f32.onnx", ids) > LEAST_AGREEMENT


def test_the_same_weights_build_the_same_bytes(tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "tiny")
    write_int8(folder, tmp_path / "one.onnx")
    write_int8(folder, tmp_path / "two.onnx")
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()


def test_half_precision_weights_are_read_as_their_f32_values(tmp_path: Path) -> None:
    half = {name: array.astype(np.float16) for name, array in tiny_weights().items()}
    folder = write_tiny_bert(tmp_path / "half", weights=half)
    onnx.save(read_graph(folder), tmp_path / "f32.onnx")
    expected = reference(half, read_shape(folder).heads, [2, 9, 3])
    np.testing.assert_allclose(run(tmp_path / "f32.onnx", [2, 9, 3]), expected, atol=2e-6)


@pytest.mark.parametrize(
    ("key", "value"),
    [("model_type", "roberta"), ("hidden_act", "relu"), ("position_embedding_type", "relative_key")],
)
def test_a_network_of_another_kind_is_refused_by_name(tmp_path: Path, key: str, value: str) -> None:
    folder = write_tiny_bert(tmp_path / "tiny")
    config = json.loads((folder / "config.json").read_text()) | {key: value}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsuitableModel, match=f"{key} is '{value}'"):
        read_shape(folder)


def test_a_model_that_pools_otherwise_is_refused(tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "tiny")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    with pytest.raises(UnsuitableModel, match="pooling_mode_cls_token"):
        read_shape(folder)


def test_a_config_without_a_size_is_refused(tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "tiny")
    config = json.loads((folder / "config.json").read_text())
    del config["num_attention_heads"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsuitableModel, match="'num_attention_heads' is missing"):
        read_shape(folder)


def test_a_missing_tensor_is_named_by_the_program_that_builds(tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "tiny")
    weights = tiny_weights()
    del weights["encoder.layer.1.output.dense.bias"]
    save_file(weights, folder / "model.safetensors")
    command = [sys.executable, "-m", "router.embedding.minilm_onnx", str(folder), str(tmp_path / "out.onnx")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert "tensor 'encoder.layer.1.output.dense.bias' is missing" in result.stderr
    assert not (tmp_path / "out.onnx").exists()


def test_weights_that_give_no_direction_are_not_built(tmp_path: Path) -> None:
    weights = tiny_weights()
    weights["embeddings.LayerNorm.bias"][3] = np.nan
    with pytest.raises(UnsuitableModel, match="cosine of nan"):
        write_int8(write_tiny_bert(tmp_path / "tiny", weights=weights), tmp_path / "out.onnx")
