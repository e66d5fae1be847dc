"""A Llama in torch, as small as it gets, with the names and shapes of the published format, so that vLLM serves its weights.

Pre-norm (RMSNorm), rotary positions in the half-split layout, SwiGLU, biases on the attention's projections, output tied to
the table of tokens: "LlamaForCausalLM" with `attention_bias` and `tie_word_embeddings`. Only what training needs: no cache,
no sampling. Touvron et al. 2023 (arXiv 2302.13971) §2.2; rotary positions: Su et al. 2021 (arXiv 2104.09864) §3.2.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Shape:
    """`width` must be heads x head_width."""

    vocabulary: int
    width: int
    layers: int
    heads: int
    inner: int
    """Width of the feed-forward part."""
    positions: int = 1024
    rotary_base: float = 10_000.0
    norm_epsilon: float = 1e-6

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    def config(self, padding: int, end: int) -> dict[str, Any]:
        """`config.json`, as the published format has it. `padding` and `end` are ids of tokens."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": self.vocabulary,
            "hidden_size": self.width,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.heads,
            "head_dim": self.head_width,
            "hidden_act": "silu",
            "max_position_embeddings": self.positions,
            "rms_norm_eps": self.norm_epsilon,
            "rope_theta": self.rotary_base,
            "attention_bias": True,
            "mlp_bias": False,
            "tie_word_embeddings": True,
            "bos_token_id": None,
            "eos_token_id": end,
            "pad_token_id": padding,
            "torch_dtype": "float32",
        }


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.head_width = shape.heads, shape.head_width
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (
            nn.Linear(shape.width, shape.width, bias=True) for _ in range(4)
        )

    def forward(self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        rows, length, width = x.shape

        def split(y: torch.Tensor) -> torch.Tensor:
            return y.view(rows, length, self.heads, self.head_width).transpose(1, 2)

        q, k, v = (
            rotated(split(self.q_proj(x)), turn),
            rotated(split(self.k_proj(x)), turn),
            split(self.v_proj(x)),
        )
        mixed = functional.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        out: torch.Tensor = self.o_proj(mixed.transpose(1, 2).reshape(rows, length, width))
        return out


class FeedForward(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.inner, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.inner, bias=False)
        self.down_proj = nn.Linear(shape.inner, shape.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.width, eps=shape.norm_epsilon)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.width, eps=shape.norm_epsilon)
        self.mlp = FeedForward(shape)

    def forward(self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), turn)
        out: torch.Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Llama(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width, eps=shape.norm_epsilon)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02 if "embed" in name else parameter.shape[1] ** -0.5 * 0.6)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(rows, length) ids to (rows, length, width): what `logits` reads."""
        turn = turns(self.shape, tokens.shape[1])
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, turn)
        out: torch.Tensor = self.norm(x)
        return out

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """(..., width) to (..., vocabulary)."""
        return functional.linear(states, self.embed_tokens.weight)

    def published(self) -> dict[str, torch.Tensor]:
        """The weights under the names of the published format."""
        return {f"model.{name}": p.detach().float().contiguous() for name, p in self.named_parameters()}


def frequencies(shape: Shape) -> torch.Tensor:
    """Radians per position of each pair of dimensions, (head_width / 2,), fastest first."""
    half = shape.head_width // 2
    return shape.rotary_base ** (-torch.arange(half, dtype=torch.float32) / half)


def turns(shape: Shape, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines by position, (length, head_width) each."""
    angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies(shape)).repeat(1, 2)
    return angles.cos(), angles.sin()


def rotated(x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Dimensions i and i + head_width/2 turned by their position's angle."""
    first, second = x.chunk(2, -1)
    return x * turn[0] + torch.cat((-second, first), -1) * turn[1]
