"""The cross-encoder learns who helps from texts, runs where scorers run, and what is no better is not accepted."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from learning.training.scorer.training import LEAST_ROWS, TooFewOutcomes, TorchMissing, Trained
from router.embedding.model import locate
from router.examples.features import Features, RequestView
from router.examples.prior import prior_model
from router.examples.scorer import Scorer
from router.learning import cross_encoder
from router.learning.cross_encoder import PAIRS_AT_ONCE, Teacher, split, trained_cross_encoder
from router.plan import Candidate
from tests.learning.training.reading_world import PLACES, asked, text_outcomes, told, write_tiny_encoder
from tests.router.examples.scoring import DIMENSIONS, cross_encoder_model, example, rarity, unit

ENCODER = locate("package")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def made(encoder: Path) -> Trained:
    return trained_cross_encoder(text_outcomes(600), prior_model(), encoder, seed=1, layers=1, epochs=6)


@pytest.mark.train
def test_what_helps_is_learnt_from_the_texts_of_sets(made: Trained) -> None:
    with Teacher(made.model, ENCODER / "tokenizer.json") as teacher:
        for place, other in pairwise(PLACES):
            alone, (same, strange) = teacher.qualities(asked(place), [told(place), told(other)])
            assert same > strange + 0.2
            assert same > alone + 0.2


@pytest.mark.train
def test_figures_are_those_of_the_held_out_and_decide(made: Trained) -> None:
    new, old = made.metrics["held_out"], made.metrics["incumbent"]
    assert set(new) == set(old)
    assert made.accepted == (new["log_loss"] < old["log_loss"])
    assert made.accepted, made.reason
    assert json.loads(json.dumps(made.metrics, allow_nan=False)) == made.metrics


@pytest.mark.train
def test_a_scorer_opens_it_and_says_what_the_teacher_says(made: Trained, tmp_path: Path) -> None:
    path = tmp_path / "cross.onnx"
    path.write_bytes(made.model)
    scorer = Scorer.open(
        path,
        version="cross",
        dimensions=DIMENSIONS,
        features=Features(rarity()),
        deadline_s=60.0,
        tokenizer=ENCODER / "tokenizer.json",
    )
    texts = [(asked(place), "It has many. " * (1 + 9 * n)) for n, place in enumerate(PLACES[:5])]
    candidates = [Candidate(example(n + 1, question=q, answer=a), 0.5) for n, (q, a) in enumerate(texts)]
    try:
        scores = scorer.score(RequestView(asked("Harrow"), unit(1)), candidates)
        none = scorer.score(RequestView(asked("Harrow"), unit(1)), [])
    finally:
        scorer.close()
    with Teacher(made.model, ENCODER / "tokenizer.json") as teacher:
        alone, with_one = teacher.qualities(asked("Harrow"), [f"{q}\n{a}" for q, a in texts])
    assert scorer.declared.signature == "cross_encoder"
    assert scores.quality_alone == none.quality_alone == pytest.approx(alone, abs=1e-5)
    assert scores.quality_with == pytest.approx(with_one, abs=1e-5)
    assert scores.gains.argmax() == PLACES.index("Harrow")


@pytest.mark.train
def test_neither_company_nor_number_changes_an_opinion(made: Trained) -> None:
    many = [told(PLACES[n % len(PLACES)]) + " More." * (n % 30) for n in range(PAIRS_AT_ONCE + 7)]
    with Teacher(made.model, ENCODER / "tokenizer.json") as teacher:
        alone, together = teacher.qualities(asked("Quito"), many)
        for place in (0, 3, PAIRS_AT_ONCE - 1, PAIRS_AT_ONCE, PAIRS_AT_ONCE + 6):
            by_itself, (one,) = teacher.qualities(asked("Quito"), [many[place]])
            assert one == pytest.approx(together[place], abs=1e-4)
            assert by_itself == pytest.approx(alone, abs=1e-4)


@pytest.mark.train
def test_the_same_seed_gives_the_same_model_and_an_unusable_incumbent_no_trouble(encoder: Path) -> None:
    rows, lines = text_outcomes(LEAST_ROWS), list[str]()
    one, other = (
        trained_cross_encoder(rows, incumbent, encoder, seed=3, layers=1, epochs=1, tell=lines.append)
        for incumbent in (prior_model(), b"no model")
    )
    assert one.model == other.model
    assert any("prior instead" in line for line in lines)
    assert one.metrics["incumbent"] == other.metrics["incumbent"]


@pytest.mark.train
def test_a_written_model_that_differs_is_refused(made: Trained, encoder: Path) -> None:
    from router.learning.cross_encoder_network import Network
    from router.learning.cross_encoder_texts import PairReader

    reader = PairReader(ENCODER / "tokenizer.json", 64)
    network = Network(encoder, 1, reader.separator, 0.5, 0)
    with (
        Teacher(made.model, ENCODER / "tokenizer.json") as teacher,
        pytest.raises(RuntimeError, match="differs"),
    ):
        cross_encoder._require_parity(teacher, network, text_outcomes(4), reader, 1.0, 0.0)


@pytest.mark.train
def test_more_layers_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="has 6 layers, not 7"):
        trained_cross_encoder(text_outcomes(LEAST_ROWS), prior_model(), ENCODER, layers=7)


def test_too_few_outcomes_are_refused() -> None:
    with pytest.raises(TooFewOutcomes, match="20 outcomes"):
        split(text_outcomes(20))


def test_rows_are_split_by_time_where_the_scorer_splits_them() -> None:
    fit, check, held = split(text_outcomes(300))
    assert [one.row.request_id for one in (*fit, *check, *held)] == [f"r{i:05}" for i in range(300)]
    assert min(len(check), len(held)) >= 40


def test_without_torch_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(TorchMissing, match="train"):
        trained_cross_encoder(text_outcomes(LEAST_ROWS), prior_model(), ENCODER)


def test_a_teacher_is_any_cross_encoder_and_asks_without_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    model = cross_encoder_model(tmp_path / "c.onnx").read_bytes()
    with Teacher(model, ENCODER / "tokenizer.json") as teacher:
        alone, (short, long) = teacher.qualities("What?", ["Short.", "A text of many more words."])
        none = teacher.predictions([])
    assert 0 < alone < short < long
    assert len(none) == 0
