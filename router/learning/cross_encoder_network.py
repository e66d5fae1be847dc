"""The cross-encoder in torch: the first layers of the gateway's own sentence encoder, and a head of its own.

Only training imports it. router.learning.cross_encoder_graph describes the network and writes it down for serving.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from learning.training.scorer.network import UNKNOWN_EFFECTS
from router.embedding.minilm_onnx import Shape, UnsuitableModel, read_shape
from router.learning.cross_encoder_graph import NOWHERE
from router.learning.cross_encoder_texts import PairReader, TextRow, padded

HIDDEN = 64
DROPOUT = 0.1
GROUP = 48
"""Pairs that go through the encoder together: of like lengths, so that little is padding."""

Tensor = Any
"""torch.Tensor; torch's own types change between versions."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Rows as token ids. A pair that several rows share, as of a request asked again, is read once."""

    pairs: list[tuple[list[int], list[int]]]
    """Token ids and types."""
    alone: Tensor
    """(rows,): which pair is the request by itself."""
    shown: list[list[int]]
    """Which pairs are a row's examples."""
    quality: Tensor
    """(rows,)"""
    weight: Tensor
    """(rows,)"""


def read_rows(rows: Sequence[TextRow], reader: PairReader) -> Reading:
    """All rows as one reading."""
    place: dict[tuple[str, str], int] = {}

    def at(request: str, example: str) -> int:
        return place.setdefault((request, example), len(place))

    alone = [at(one.request, "") for one in rows]
    shown = [[at(one.request, example) for example in one.examples] for one in rows]
    return Reading(
        reader.read(list(place)),
        torch.tensor(alone, dtype=torch.long),
        shown,
        torch.tensor([one.row.quality for one in rows], dtype=torch.float32),
        torch.tensor([one.row.weight for one in rows], dtype=torch.float32),
    )


class Network:
    """Weights and how they are used. The tables of words and positions stay as they came."""

    def __init__(self, encoder: Path, layers: int, separator: int, starts_at: float, seed: int) -> None:
        """`encoder`: a folder as router.embedding.model.locate gives it; its first `layers` layers are taken.

        `starts_at`: quality without examples before anything is learnt. Raises UnsuitableModel.
        """
        self.shape: Shape = read_shape(encoder)
        self.layers, self._separator = layers, separator
        if not 1 <= layers <= self.shape.layers:
            raise UnsuitableModel(f"{encoder} has {self.shape.layers} layers, not {layers}")
        self._generator = torch.Generator().manual_seed(seed)
        width = self.shape.hidden
        self.tables, self.weights = _taken(encoder, layers)
        start = float(torch.logit(torch.tensor(starts_at), eps=0.05))
        self.head: dict[str, Tensor] = {
            "match": self._drawn(1, width, 0.05)[0],
            "head.hidden.weight": self._drawn(3 * width, HIDDEN, (3 * width) ** -0.5),
            "head.hidden.bias": torch.zeros(HIDDEN),
            "head.effects.weight": self._drawn(HIDDEN, 2, 0.3 * HIDDEN**-0.5),
            "head.effects.bias": torch.tensor(UNKNOWN_EFFECTS),
            "head.alone.weight": torch.zeros(3 * width, 1),
            "head.alone.bias": torch.full((1,), start),
        }
        for weight in (*self.weights.values(), *self.head.values()):
            weight.requires_grad_(True)

    def effects(
        self, reading: Reading, rows: Sequence[int], *, dropout: bool = False
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Quality alone (rows,), shares mended and spoilt by each example (examples,), and whose each is (examples,)."""
        wanted = sorted({int(reading.alone[r]) for r in rows} | {p for r in rows for p in reading.shown[r]})
        place = {pair: i for i, pair in enumerate(wanted)}
        pooled = self._pooled([reading.pairs[pair] for pair in wanted])
        if dropout:
            pooled = self._dropped(pooled)
        head = self.head
        alone_at = torch.tensor([place[int(reading.alone[r])] for r in rows], dtype=torch.long)
        alone = torch.sigmoid(pooled[alone_at] @ head["head.alone.weight"] + head["head.alone.bias"])[:, 0]
        shown_at = torch.tensor([place[p] for r in rows for p in reading.shown[r]], dtype=torch.long)
        owner = torch.repeat_interleave(
            torch.arange(len(rows)), torch.tensor([len(reading.shown[r]) for r in rows])
        )
        hidden = torch.tanh(pooled[shown_at] @ head["head.hidden.weight"] + head["head.hidden.bias"])
        if dropout:
            hidden = self._dropped(hidden)
        helps, harms = torch.sigmoid(hidden @ head["head.effects.weight"] + head["head.effects.bias"]).T
        return alone, helps, harms, owner

    def qualities(
        self, reading: Reading, rows: Sequence[int], *, dropout: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Expected quality alone (rows,), with each example by itself (examples,), and whose each is (examples,)."""
        alone, helps, harms, owner = self.effects(reading, rows, dropout=dropout)
        without = alone[owner]
        return alone, without * (1 - harms) + (1 - without) * helps, owner

    def exported(self, slope: float, offset: float) -> dict[str, np.ndarray[Any, Any]]:
        """Weights for router.learning.cross_encoder_graph."""
        whole = {**self.tables, **self.weights, **self.head}
        line = {"slope": np.array([slope], np.float32), "offset": np.array([offset], np.float32)}
        return {name: weight.detach().numpy() for name, weight in whole.items()} | line

    def kept(self) -> dict[str, Tensor]:
        """A copy of the trained weights as they are now."""
        return {name: w.detach().clone() for name, w in (*self.weights.items(), *self.head.items())}

    def restore(self, kept: Mapping[str, Tensor]) -> None:
        """Takes back what `kept` gave."""
        with torch.no_grad():
            for name, weight in (*self.weights.items(), *self.head.items()):
                weight.copy_(kept[name])

    def _pooled(self, pairs: Sequence[tuple[list[int], list[int]]]) -> Tensor:
        """(pairs, 3 hidden)"""
        order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]))
        groups = [order[i : i + GROUP] for i in range(0, len(order), GROUP)]
        found = torch.cat([self._encoded([pairs[i] for i in group]) for group in groups])
        back = torch.empty(len(order), dtype=torch.long)
        back[torch.tensor(order)] = torch.arange(len(order))
        return found[back]

    def _encoded(self, pairs: Sequence[tuple[list[int], list[int]]]) -> Tensor:
        feeds = {name: torch.from_numpy(array) for name, array in padded(pairs).items()}
        ids, types, real = feeds["input_ids"], feeds["token_type_ids"], feeds["attention_mask"].float()
        w, eps, width = self.weights, self.shape.epsilon, (self.shape.hidden,)

        def norm(x: Tensor, prefix: str) -> Tensor:
            return functional.layer_norm(x, width, w[f"{prefix}.weight"], w[f"{prefix}.bias"], eps)

        def dense(x: Tensor, prefix: str) -> Tensor:
            return functional.linear(x, w[f"{prefix}.weight"], w[f"{prefix}.bias"])

        x = self.tables["embeddings.word_embeddings.weight"][ids]
        x = x + self.tables["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = x + w["embeddings.token_type_embeddings.weight"][types]
        x = norm(x + self._matched(ids, types, real)[..., None] * self.head["match"], "embeddings.LayerNorm")
        padding = ((1 - real) * NOWHERE)[:, None, None, :]
        for layer in range(self.layers):
            prefix = f"encoder.layer.{layer}"
            query, key, value = (
                dense(x, f"{prefix}.attention.self.{part}")
                .unflatten(2, (self.shape.heads, -1))
                .transpose(1, 2)
                for part in ("query", "key", "value")
            )
            heads = functional.scaled_dot_product_attention(query, key, value, attn_mask=padding)
            joined = heads.transpose(1, 2).flatten(2)
            x = norm(
                dense(joined, f"{prefix}.attention.output.dense") + x, f"{prefix}.attention.output.LayerNorm"
            )
            inner = functional.gelu(dense(x, f"{prefix}.intermediate.dense"))
            x = norm(dense(inner, f"{prefix}.output.dense") + x, f"{prefix}.output.LayerNorm")
        example = types.float()
        means = [
            (x * chosen[..., None]).sum(1) / chosen.sum(1, keepdim=True).clamp(min=1)
            for chosen in (real - example, example)
        ]
        return torch.cat([x[:, 0], *means], 1)

    def _matched(self, ids: Tensor, types: Tensor, real: Tensor) -> Tensor:
        """1 for a token that is in the other text as well; (pairs, tokens)."""
        same = (ids[:, :, None] == ids[:, None, :]) & (types[:, :, None] != types[:, None, :])
        return ((same & real[:, None, :].bool()).any(2) & (ids != self._separator)).float()

    def _drawn(self, rows: int, columns: int, spread: float) -> Tensor:
        return torch.randn(rows, columns, generator=self._generator) * spread

    def _dropped(self, values: Tensor) -> Tensor:
        kept = torch.rand(values.shape, generator=self._generator) >= DROPOUT
        return values * kept / (1 - DROPOUT)


def _taken(encoder: Path, layers: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The tables, rounded to what is written down; and the weights that are trained. Raises UnsuitableModel."""
    from safetensors.numpy import load_file

    found = load_file(encoder / "model.safetensors")
    tables = [f"embeddings.{name}_embeddings.weight" for name in ("word", "position")]
    wanted = ["embeddings.token_type_embeddings.weight", *_with_bias("embeddings.LayerNorm")]
    for layer in range(layers):
        parts = [f"attention.self.{part}" for part in ("query", "key", "value")]
        parts += ["attention.output.dense", "attention.output.LayerNorm"]
        parts += ["intermediate.dense", "output.dense", "output.LayerNorm"]
        wanted += [name for part in parts for name in _with_bias(f"encoder.layer.{layer}.{part}")]
    if absent := [name for name in (*tables, *wanted) if name not in found]:
        raise UnsuitableModel(f"model.safetensors: tensor {absent[0]!r} is missing")
    rounded = {name: torch.from_numpy(found[name].astype(np.float16).astype(np.float32)) for name in tables}
    return rounded, {name: torch.from_numpy(found[name].astype(np.float32)) for name in wanted}


def _with_bias(prefix: str) -> tuple[str, str]:
    return f"{prefix}.weight", f"{prefix}.bias"
