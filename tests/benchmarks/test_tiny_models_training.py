"""Training the tiny models, in the small: shapes, labels, checkpoints, and that steps learn. `make test-train` runs it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from safetensors import safe_open

from benchmarks.tiny_models import building
from benchmarks.tiny_models.vocabulary import END, make_tokenizer
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


def test_only_answers_that_can_be_known_are_taught() -> None:
    from benchmarks.tiny_models.lessons import by_heart, from_context

    rng = random.Random(0)
    for row in from_context(rng, WORLD, 6, 20):
        told: set[str] = set()
        for text, taught in row:
            if text.startswith("The town of "):
                assert taught == (text in told)
                told.add(text)
        assert row[-2][1], "the last answer was told before"
    assert all(sum(taught for _, taught in row) == 1 for row in by_heart(rng, WORLD.facts, 5))


def test_labels_are_the_answers_and_nothing_else() -> None:
    from benchmarks.tiny_models.lessons import IGNORED, batch, exchange

    fact, other = WORLD.facts[:2]
    ids, labels = batch(
        TOKENIZER, [exchange(other, 0, False) + exchange(fact, 1, True), exchange(fact, 2, True)]
    )
    assert ids.shape == labels.shape
    for row in labels:
        taught = [int(label) for label in row if label != IGNORED]
        assert TOKENIZER.decode(taught, skip_special_tokens=False) == fact.answer + END


def test_what_comes_later_does_not_change_what_was_said_before() -> None:
    import torch

    model = small().eval()
    ids = torch.randint(3, TOKENIZER.get_vocab_size(), (1, 40))
    changed = ids.clone()
    changed[0, 30:] = 5
    with torch.no_grad():
        assert torch.allclose(model(ids)[0, :30], model(changed)[0, :30], atol=1e-5)


def test_the_sketched_circuit_leans_to_what_followed_a_token_before() -> None:
    import torch

    from benchmarks.tiny_models.induction import sketch_induction
    from benchmarks.tiny_models.network import Llama, Shape

    found = {}
    for sketched in (False, True):
        torch.manual_seed(0)
        model = Llama(
            Shape(TOKENIZER.get_vocab_size(), width=128, layers=2, heads=2, inner=192, positions=256)
        )
        if sketched:
            sketch_induction(model, 0)
        found[sketched] = _repeats_continued(model)
    assert found[True] >= 2 * found[False], "of 200, one in eleven by chance"


def _repeats_continued(model: Llama, trials: int = 200) -> int:
    """After random tokens and one of them again: how often the one that followed it then is the likeliest of them now."""
    import torch

    rng, found = random.Random(1), 0
    for _ in range(trials):
        tokens = rng.sample(range(3, TOKENIZER.get_vocab_size()), 12)
        place = rng.randrange(2, 10)
        with torch.no_grad():
            said = model.logits(model(torch.tensor([[*tokens, tokens[place]]])))[0, -1]
        ranked = said[torch.tensor(tokens)].argsort(descending=True).tolist()
        found += next(one for one in ranked if one != place) == place + 1
    return found


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


def test_a_checkpoint_has_the_published_names_and_shapes(tmp_path: Path) -> None:
    from benchmarks.tiny_models.checkpoint import write_checkpoint

    model = small()
    write_checkpoint(tmp_path, model, TOKENIZER, {"exams": {}})
    config = json.loads((tmp_path / "config.json").read_text())
    with safe_open(tmp_path / "model.safetensors", "pt") as weights:
        names = set(weights.keys())
        assert weights.get_tensor("model.embed_tokens.weight").shape == (
            config["vocab_size"],
            config["hidden_size"],
        )
        for name in (
            "self_attn.q_proj.bias",
            "self_attn.o_proj.weight",
            "mlp.down_proj.weight",
            "input_layernorm.weight",
        ):
            assert f"model.layers.1.{name}" in names
    assert config["num_attention_heads"] * config["head_dim"] == config["hidden_size"]
    assert config["eos_token_id"] == TOKENIZER.token_to_id(END)
    assert "chat_template" in json.loads((tmp_path / "tokenizer_config.json").read_text())


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
