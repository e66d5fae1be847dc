"""A head start for an understudy: a rough circuit for copying from the context, written into its first weights.

Two layers that copy after a match ("induction heads", Olsson et al. 2022, arXiv 2209.11895) are what in-context examples
need of a model, and the last thing a model trained for minutes finds by itself. So they are sketched here, roughly, and
training has to do the rest: when to copy, whose answer, and what not to copy.
"""

from __future__ import annotations

import torch

from benchmarks.tiny_models.network import Attention, Llama, frequencies

_TOKEN_SCALE, _NOTE_SCALE, _COPY_SCALE = 0.08, 0.11, 0.3
"""Of the table of tokens, of what layer 0 notes, of what layer 1 says: only their ratios matter, norms take out the rest."""


@torch.no_grad()
def sketch_induction(model: Llama, seed: int, *, sharpness: float = 5.0, match: float = 1.8) -> None:
    """Writes the circuit into the first two layers of a model of at least two heads.

    Layer 0 notes at each position which token stood one before (head 0) and two before (head 1). In layer 1 the first head
    looks for positions whose "one before" is the present token, the second for positions whose "two before" is the present
    token's "one before", so that "brews" in two examples is told apart by whose it is; both say what stands where they look.
    `sharpness` and `match` scale the logits of the first and of the second layer.
    """
    shape = model.shape
    generator = torch.Generator().manual_seed(seed)
    model.embed_tokens.weight.normal_(0, _TOKEN_SCALE, generator=generator)
    reading, one_before, two_before, copying = (
        torch.linalg.qr(torch.randn(shape.width, shape.width, generator=generator))[0] for _ in range(4)
    )
    width = shape.head_width
    first, second = (layer.self_attn for layer in model.layers[:2])
    for head, noted in enumerate((one_before, two_before)):
        rows = slice(head * width, (head + 1) * width)
        _look_back(first, rows, frequencies(shape), sharpness, positions=head + 1)
        first.v_proj.weight[rows] = reading[:width]
        first.o_proj.weight[:, rows] = _NOTE_SCALE * noted[:, :width]
    # What is matched must not turn with distance: only the slowest pairs of dimensions carry it.
    slow = torch.arange(7 * width // 32, width // 2)
    for head, (wanted, offered) in enumerate(((reading, one_before.T), (one_before.T, two_before.T))):
        places = head * width + torch.cat((slow, slow + width // 2))
        noted_rows = torch.randperm(width, generator=generator)[: len(places)]
        second.q_proj.weight[places] = match * wanted[noted_rows]
        second.k_proj.weight[places] = match * offered[noted_rows]
    second.v_proj.weight.copy_(copying)
    second.o_proj.weight.copy_(_COPY_SCALE * copying.T)


def _look_back(
    attention: Attention, rows: slice, radians: torch.Tensor, sharpness: float, positions: int
) -> None:
    """A head attends `positions` back, whatever stands there: constant queries, turned that much against constant keys."""
    start, half, fast = rows.start, attention.head_width // 2, len(radians) // 2
    attention.q_proj.weight[rows] = 0
    attention.k_proj.weight[rows] = 0
    turned = positions * radians[:fast]
    attention.k_proj.bias[start : start + fast] = sharpness
    attention.q_proj.bias[start : start + fast] = sharpness * turned.cos()
    attention.q_proj.bias[start + half : start + half + fast] = -sharpness * turned.sin()
