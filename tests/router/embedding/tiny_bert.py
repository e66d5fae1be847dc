"""A BERT small enough for a test: random weights, a tokenizer of letters, laid out as the model hub lays out a real one."""

from __future__ import annotations

import json
import string
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

HIDDEN, HEADS, LAYERS, INNER, POSITIONS = 48, 4, 2, 96, 64
TOKENS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *string.ascii_lowercase,
    *("##" + letter for letter in string.ascii_lowercase),
]


def tiny_weights(seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return (generator.standard_normal(shape) * 0.2).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight": normal(len(TOKENS), HIDDEN) * 5,
        "embeddings.position_embeddings.weight": normal(POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": normal(2, HIDDEN),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}"
        norms += [f"{prefix}.attention.output.LayerNorm", f"{prefix}.output.LayerNorm"]
        sizes = {f"{prefix}.attention.self.{part}": (HIDDEN, HIDDEN) for part in ("query", "key", "value")}
        sizes[f"{prefix}.attention.output.dense"] = (HIDDEN, HIDDEN)
        sizes[f"{prefix}.intermediate.dense"] = (INNER, HIDDEN)
        sizes[f"{prefix}.output.dense"] = (HIDDEN, INNER)
        for name, size in sizes.items():
            weights |= {f"{name}.weight": normal(*size), f"{name}.bias": normal(size[0])}
    for name in norms:
        weights |= {f"{name}.weight": 1 + normal(HIDDEN), f"{name}.bias": normal(HIDDEN)}
    return weights


def write_tiny_bert(folder: Path, *, seed: int = 0, weights: dict[str, np.ndarray] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights or tiny_weights(seed), folder / "model.safetensors")
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "position_embedding_type": "absolute",
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "max_position_embeddings": POSITIONS,
        "vocab_size": len(TOKENS),
        "layer_norm_eps": 1e-12,
    }
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer(models.WordPiece({token: i for i, token in enumerate(TOKENS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    # As in the real file: settings for training batches, which must not reach a single text.
    tokenizer.enable_padding(length=16)
    tokenizer.enable_truncation(16)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
