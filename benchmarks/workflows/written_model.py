"""Writes the folder of a model without weights: a config.json of LLaMA's shape and a tokenizer that knows every id.

For `vllm serve --load-format dummy`, which draws the weights. The times of a step depend on shapes alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from benchmarks.tiny_models.vocabulary import CHAT_TEMPLATE, END, PADDING, make_tokenizer
from benchmarks.tiny_models.world import World


@dataclass(frozen=True, slots=True)
class Shape:
    """Of the network; the figures are LLaMA 2 7B's (Touvron et al., 2023)."""

    hidden: int = 4096
    inner: int = 11_008
    layers: int = 32
    heads: int = 32
    vocabulary: int = 32_000
    positions: int = 4096
    dtype: str = "bfloat16"


LLAMA_2_7B = Shape()


def write_model(folder: Path, shape: Shape = LLAMA_2_7B) -> Path:
    """config.json, tokenizer and chat template, in a new folder, which is returned."""
    folder.mkdir(parents=True)
    tokenizer = _padded(make_tokenizer(World()), shape.vocabulary)
    tokenizer.save(str(folder / "tokenizer.json"))
    padding, end = (tokenizer.token_to_id(token) for token in (PADDING, END))
    _write(folder / "config.json", _config(shape, padding, end))
    _write(
        folder / "generation_config.json", {"eos_token_id": end, "pad_token_id": padding, "do_sample": False}
    )
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "chat_template": CHAT_TEMPLATE,
            "eos_token": END,
            "pad_token": PADDING,
            "bos_token": None,
            "model_max_length": shape.positions,
            "clean_up_tokenization_spaces": False,
        },
    )
    return folder


def _padded(tokenizer: Tokenizer, size: int) -> Tokenizer:
    """With words that no text is cut into, so that whatever a model without training chooses has a text.

    Raises ValueError where it has more than `size` tokens.
    """
    written = json.loads(tokenizer.to_str())
    vocabulary = written["model"]["vocab"]
    if len(vocabulary) > size:
        raise ValueError(f"the tokenizer has {len(vocabulary)} tokens, more than {size}")
    for number in range(len(vocabulary), size):
        vocabulary[f"Ġ{_letters(number)}"] = number
    return Tokenizer.from_str(json.dumps(written))


def _letters(number: int) -> str:
    """A number in letters, with an ending that no word has."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number)) + "qqq"


def _config(shape: Shape, padding: int, end: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "head_dim": shape.hidden // shape.heads,
        "hidden_act": "silu",
        "max_position_embeddings": shape.positions,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": end,
        "pad_token_id": padding,
        "torch_dtype": shape.dtype,
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
