"""Outcomes with texts of a little world in which the right examples are known, for the tests of the cross-encoder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from learning.training.scorer.rows import Row
from router.embedding.model import locate
from router.examples.features import NAMES
from router.learning.cross_encoder_texts import TextRow, shown
from tests.router.embedding.tiny_bert import HIDDEN, tiny_weights, write_tiny_bert
from tests.router.examples.scoring import DIMENSIONS, unit

ALONE, HELPED = 0.2, 0.95
PLACES = ("Eastwick", "Lisbon", "Harrow", "Toledo", "Ottawa", "Bergen", "Kyoto", "Dublin", "Quito", "Basel")


def asked(place: str) -> str:
    return place


def told(place: str) -> str:
    return shown(asked(place), "It has many.")


def text_outcomes(count: int, seed: int = 0) -> list[TextRow]:
    """An example helps exactly if it is about the same place; otherwise it does nothing."""
    generator = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        here = str(generator.choice(PLACES))
        sent = int(generator.integers(0, 3))
        about = [here if generator.random() < 0.4 else str(generator.choice(PLACES)) for _ in range(sent)]
        right = generator.random() < (HELPED if here in about else ALONE)
        blank = np.zeros((sent, DIMENSIONS), np.float32)
        scalars = np.zeros((sent, len(NAMES)), np.float32)
        row = Row(f"r{i:05}", float(i), unit(PLACES.index(here)), blank, blank, scalars, float(right))
        rows.append(TextRow(row, asked(here), tuple(told(place) for place in about)))
    return rows


def write_tiny_encoder(folder: Path) -> Path:
    """A sentence encoder of random weights that reads words as the real one does: trained in a second."""
    generator = np.random.default_rng(0)
    tokens, positions = 30_522, 256
    weights = tiny_weights()
    for name, count in (("word", tokens), ("position", positions)):
        table = generator.standard_normal((count, HIDDEN)).astype(np.float32)
        # Of the size of the real one's, or marks would not show beside them.
        weights[f"embeddings.{name}_embeddings.weight"] = table * (0.05 if name == "word" else 0.01)
    weights["embeddings.token_type_embeddings.weight"] *= 0.1
    write_tiny_bert(folder, weights=weights)
    config = json.loads((folder / "config.json").read_text())
    config |= {"vocab_size": tokens, "max_position_embeddings": positions}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_bytes((locate("package") / "tokenizer.json").read_bytes())
    return folder
