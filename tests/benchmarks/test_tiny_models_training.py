"""Training the tiny models, in the small: shapes, labels, checkpoints, and that steps learn. `make test-train` runs it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.tiny_models import building
from benchmarks.tiny_models.vocabulary import make_tokenizer
from benchmarks.tiny_models.world import World

if TYPE_CHECKING:
    from benchmarks.tiny_models.network import Llama

pytestmark = pytest.mark.train

WORLD = World(8)
TOKENIZER = make_tokenizer(WORLD)


def small(layers: int = 2) -> Llama:
    import torch

    from benchmarks.tiny_models.network import Llama, Shape

    torch.manual_seed(0)
    return Llama(Shape(TOKENIZER.get_vocab_size(), width=64, layers=layers, heads=2, inner=96, positions=256))


def test_steps_on_one_batch_learn_it_and_the_same_seed_learns_the_same() -> None:
    from benchmarks.tiny_models.lessons import by_heart
    from benchmarks.tiny_models.training import Pace, share_right, train

    rows = by_heart(random.Random(0), WORLD.facts[:2], 4)
    said: list[str] = []
    losses = []
    for _ in range(2):
        model = small()
        train(model, TOKENIZER, lambda _: rows, Pace(40, 4, 3e-3, warm_up_steps=5), said.append)
        losses.append(float(sum(p.detach().double().sum() for p in model.parameters())))
        assert share_right(model, TOKENIZER, rows) == 1.0
    assert losses[0] == losses[1] and said


def test_a_model_is_built_once_and_anew_when_its_code_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.tiny_models import recipes

    made = []

    def make(folder: Path, say: object) -> dict[str, float]:
        folder.mkdir()
        made.append(folder)
        return {"alone": 1.0}

    monkeypatch.setattr(recipes, "make_lead", make)
    for _ in range(2):
        building.build(tmp_path, "lead", lambda said: None)
    assert len(made) == 1 and building.is_built(tmp_path, "lead")
    monkeypatch.setattr(building, "fingerprint", lambda: "of other code")
    assert not building.is_built(tmp_path, "lead")
    building.build(tmp_path, "lead", lambda said: None)
    assert len(made) == 2 and building.is_built(tmp_path, "lead")
