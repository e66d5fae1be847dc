"""Writes a trained tiny model as a folder that vLLM serves: config.json, model.safetensors, tokenizer and chat template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from tokenizers import Tokenizer

from benchmarks.tiny_models.network import Llama
from benchmarks.tiny_models.vocabulary import CHAT_TEMPLATE, END, PADDING


def write_checkpoint(folder: Path, model: Llama, tokenizer: Tokenizer, about: dict[str, Any]) -> None:
    """`about`: how it was made and what it can do; kept as `about.json` beside the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    padding, end = (tokenizer.token_to_id(token) for token in (PADDING, END))
    save_file(model.published(), folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save(str(folder / "tokenizer.json"))
    _write(folder / "config.json", model.shape.config(padding, end))
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
            "model_max_length": model.shape.positions,
            "clean_up_tokenization_spaces": False,
        },
    )
    _write(folder / "about.json", about)


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
