"""Fine-tunes the last layers of the product's own sentence encoder on the labels of a task.

The layers before them stay as they are (router.embedding.trunk), so their states are computed once per text, and all steps
together cost a few passes over the last ones. The layer of labels behind them starts from each label's mean embedding.
AdamW with a warm-up and a linear fall of the rate: Devlin et al., 2018, "BERT", appendix A.3. Needs torch, by the extra
`train`; what comes out runs without.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from learning.tasks.network import LastLayers, last_layers
from router.embedding import minilm_onnx
from router.embedding import model as embedding_model
from router.embedding.trunk import TUNED, Trunk

if TYPE_CHECKING:
    import numpy.typing as npt

    from router.embedding.trunk import States

NO_TORCH = "encoders are not fine-tuned: torch is not installed; `pip install 'understudy-gateway[train]'` installs it"

_BATCH = 16
_ROUNDS, _FEWEST_UPDATES, _MOST_UPDATES = 4, 200, 350
"""Each text is seen so often, within these numbers of updates, of which one takes a tenth of a second of a core."""
_RATE, _HEAD_RATE, _DECAY, _WARM_UP = 2e-4, 2e-3, 0.01, 0.1
_DROPPED = 0.1
_SHARPNESS = 20.0
"""The length to which encoded texts are scaled before the layer of labels: of unit length, a softmax stays flat."""
_AT_ONCE = 8
"""Batches of which the texts are sorted by length, so that little is padding."""


class NoEncoder(ValueError):
    """Encoders cannot be fine-tuned here. The text says why, and what to install."""


@dataclass(frozen=True, slots=True)
class EncoderTrainer:
    """Fine-tunes the last layers of one encoder."""

    folder: Path
    """Its weights, as the model hub lays them out."""
    trunk: Trunk
    version: str
    """The version of the encoder; that of embeddings by it begins with it."""
    again: bool = True
    """False: the layers that were tuned for the hold-out are used as they are, not tuned anew on all inputs. For benchmarks,
    which train dozens."""

    @classmethod
    def open(cls, source: str, cache_dir: Path) -> EncoderTrainer:
        """`source`: as router.embedding.model.prepare takes it. Raises NoEncoder without torch, and what that raises."""
        if importlib.util.find_spec("torch") is None:
            raise NoEncoder(NO_TORCH)
        model = embedding_model.prepare(source, cache_dir)
        return cls(embedding_model.locate(source), Trunk(model.model, model.tokenizer), model.version)

    def tuned(
        self,
        states: Sequence[States],
        vectors: npt.NDArray[np.float32],
        targets: npt.NDArray[Any],
        weights: npt.NDArray[Any],
        seed: int,
    ) -> LastLayers:
        """Fine-tuned on `states`, one per text, with `targets` (texts, labels), probabilities, and `weights` (texts,).
        `vectors`, (texts, hidden), are the texts' embeddings. Blocks for a minute or some; `seed` decides everything that
        is drawn."""
        import torch
        from safetensors.numpy import load_file

        # A gateway may need the other cores.
        torch.set_num_threads(1)
        shape = minilm_onnx.read_shape(self.folder)
        loaded = load_file(self.folder / "model.safetensors")
        lasting = tuple(f"encoder.layer.{layer}." for layer in range(shape.layers - TUNED, shape.layers))
        names = [name for name in loaded if name.startswith(lasting)]
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            parts = {name: torch.tensor(loaded[name], requires_grad=True) for name in names}
            del loaded
            head = torch.tensor(_centroids(vectors, targets * weights[:, None]), requires_grad=True)
            bias = torch.zeros(targets.shape[1], requires_grad=True)
            _train(
                [(list(parts.values()), _RATE), ([head, bias], _HEAD_RATE)],
                lambda x, mask: _logits(parts, shape, head, bias, x, mask),
                _batches(states, targets, weights / weights.mean(), seed),
            )
        tuned = {name: part.detach().numpy() for name, part in parts.items()}
        return last_layers(
            tuned,
            shape,
            shape.layers - TUNED,
            _SHARPNESS * head.detach().numpy().T.astype(np.float64),
            bias.detach().numpy().astype(np.float64),
        )


def _centroids(vectors: npt.NDArray[np.float32], weights: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """(labels, hidden): the mean embedding of each label's texts, given the weights (texts, labels)."""
    sums = weights.T @ vectors
    found: npt.NDArray[np.float32] = (sums / np.maximum(weights.sum(axis=0), 1e-9)[:, None]).astype(
        np.float32
    )
    return found


def _train(
    groups: Sequence[tuple[list[Any], float]],
    logits: Callable[[Any, Any], Any],
    batches: Sequence[Callable[[], tuple[Any, ...]]],
) -> None:
    """One update per batch. `groups`: parameters with their rate at its highest."""
    import torch

    optimizer = torch.optim.AdamW(
        [{"params": parameters, "lr": rate} for parameters, rate in groups], weight_decay=_DECAY
    )
    updates = len(batches)

    def rate(update: int) -> float:
        return float(min(1.0, (update + 1) / (_WARM_UP * updates)) * (1.0 - update / updates))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    parameters = [each for group, _ in groups for each in group]
    for batch in batches:
        x, mask, wanted, weights = map(torch.from_numpy, batch())
        losses = torch.nn.functional.cross_entropy(logits(x, mask), wanted, reduction="none")
        optimizer.zero_grad()
        (losses * weights).mean().backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()


def _logits(parts: Any, shape: minilm_onnx.Shape, head: Any, bias: Any, x: Any, mask: Any) -> Any:
    """(texts, labels), with dropout, of padded states. The network is that of router.embedding.minilm_onnx."""
    from torch.nn import functional

    texts, tokens, hidden = x.shape
    for layer in range(shape.layers - TUNED, shape.layers):
        prefix = f"encoder.layer.{layer}"

        def dense(y: Any, name: str, prefix: str = prefix) -> Any:
            return functional.linear(y, parts[f"{prefix}.{name}.weight"], parts[f"{prefix}.{name}.bias"])

        def added(y: Any, x: Any, name: str, prefix: str = prefix) -> Any:
            scale, shift = parts[f"{prefix}.{name}.weight"], parts[f"{prefix}.{name}.bias"]
            return functional.layer_norm(
                x + functional.dropout(y, _DROPPED), (hidden,), scale, shift, shape.epsilon
            )

        query, key, value = (
            dense(x, f"attention.self.{part}").view(texts, tokens, shape.heads, -1).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        heads = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None])
        together = heads.transpose(1, 2).reshape(texts, tokens, hidden)
        x = added(dense(together, "attention.output.dense"), x, "attention.output.LayerNorm")
        inner = functional.gelu(dense(x, "intermediate.dense"))
        x = added(dense(inner, "output.dense"), x, "output.LayerNorm")
    pooled = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    encoded = _SHARPNESS * functional.normalize(pooled, dim=-1)
    return functional.linear(functional.dropout(encoded, _DROPPED), head, bias)


def _batches(
    states: Sequence[States], targets: npt.NDArray[Any], weights: npt.NDArray[Any], seed: int
) -> list[Callable[[], tuple[npt.NDArray[Any], ...]]]:
    """Each makes padded states, a mask, targets and weights: texts of like length together, batches in any order."""
    updates = _ROUNDS * math.ceil(len(states) / _BATCH)
    updates = min(_MOST_UPDATES, max(_FEWEST_UPDATES, updates))
    random = np.random.default_rng(seed)

    def rounds() -> Iterator[npt.NDArray[np.int64]]:
        while True:
            order = random.permutation(len(states))
            blocks = np.array_split(order, math.ceil(len(order) / (_BATCH * _AT_ONCE)))
            by_length = [block[np.argsort([states[i].shape[1] for i in block])] for block in blocks]
            batches = [
                block[start : start + _BATCH] for block in by_length for start in range(0, len(block), _BATCH)
            ]
            yield from (batches[place] for place in random.permutation(len(batches)))

    def padded(places: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], ...]:
        longest = max(states[place].shape[1] for place in places)
        x = np.zeros((len(places), longest, states[0].shape[2]), np.float32)
        mask = np.zeros((len(places), longest), np.bool_)
        for row, place in enumerate(places):
            tokens = states[place].shape[1]
            x[row, :tokens], mask[row, :tokens] = states[place][0], True
        return x, mask, targets[places].astype(np.float32), weights[places].astype(np.float32)

    return [partial(padded, places) for places, _ in zip(rounds(), range(updates), strict=False)]
