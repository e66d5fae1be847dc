"""The cross-encoder in torch is the gateway's own encoder with marks and a head, and reads every pair once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.numpy import load_file

from router.embedding.minilm_onnx import build_graph, read_shape
from router.embedding.model import locate
from router.embedding.onnx_session import import_onnxruntime
from router.learning.cross_encoder_graph import HEAD, cross_encoder_model
from router.learning.cross_encoder_texts import PairReader, TextRow, padded
from tests.learning.training.reading_world import asked, text_outcomes, told, write_tiny_encoder

if TYPE_CHECKING:
    from router.learning.cross_encoder_network import Network

pytestmark = pytest.mark.train
ENCODER = locate("package")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def reader() -> PairReader:
    return PairReader(ENCODER / "tokenizer.json", 64)


def made(encoder: Path, reader: PairReader, layers: int = 1, seed: int = 0) -> Network:
    from router.learning.cross_encoder_network import Network

    return Network(encoder, layers, reader.separator, 0.3, seed)


def test_its_layers_are_the_encoders_own(reader: PairReader) -> None:
    """With all layers and one text, the mean of the tokens is the sentence encoder's vector."""
    import torch

    whole = made(ENCODER, reader, layers=6)
    ids = reader.read([("What is the capital of Portugal?", "")])[0][0][:-1]
    with torch.no_grad():
        pooled = whole._encoded([(ids, [0] * len(ids))])[0]
    mean = pooled[whole.shape.hidden : 2 * whole.shape.hidden].numpy()
    graph = build_graph(load_file(ENCODER / "model.safetensors"), read_shape(ENCODER))
    session = import_onnxruntime().InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (vector,) = session.run(None, {"input_ids": np.array([ids])})[0]
    assert mean / np.linalg.norm(mean) @ vector == pytest.approx(1.0, abs=1e-4)


def test_a_word_of_both_texts_is_marked_in_both_and_nothing_else(tiny: Path, reader: PairReader) -> None:
    import torch

    read = reader.read([("where is Lisbon", "Lisbon rocks"), ("where is Lisbon", "")])
    feeds = {name: torch.from_numpy(array) for name, array in padded(read).items()}
    marks = made(tiny, reader)._matched(
        feeds["input_ids"], feeds["token_type_ids"], feeds["attention_mask"].float()
    )
    # [CLS] where is lisbon [SEP] lisbon rocks [SEP]
    assert marks[0].tolist() == [0, 0, 0, 1, 0, 1, 0, 0]
    assert marks[1].sum() == 0


def test_a_request_asked_again_with_the_same_example_is_read_once(reader: PairReader) -> None:
    from router.learning.cross_encoder_network import read_rows

    (one,) = text_outcomes(1)
    rows = [TextRow(one.row, asked("Quito"), (told("Quito"), told("Basel"))) for _ in range(5)]
    reading = read_rows(rows, reader)
    assert len(reading.pairs) == 3
    assert reading.shown == [[1, 2]] * 5


def test_with_an_example_is_alone_less_what_is_spoilt_and_more_what_is_mended(
    tiny: Path, reader: PairReader
) -> None:
    from router.learning.cross_encoder_network import read_rows

    rows = text_outcomes(12)
    reading, network = read_rows(rows, reader), made(tiny, reader)
    alone, helps, harms, owner = network.effects(reading, range(12))
    _, with_one, _ = network.qualities(reading, range(12))
    a = alone[owner]
    assert np.allclose((a * (1 - harms) + (1 - a) * helps).detach(), with_one.detach())
    assert owner.tolist() == [n for n, one in enumerate(rows) for _ in one.examples]


def test_what_was_kept_comes_back_and_the_same_seed_draws_the_same(tiny: Path, reader: PairReader) -> None:
    import torch

    one, same, other = (made(tiny, reader, seed=seed) for seed in (1, 1, 2))
    head = "head.hidden.weight"
    assert torch.equal(one.head[head], same.head[head])
    assert not torch.equal(one.head[head], other.head[head])
    other.restore(one.kept())
    assert torch.equal(one.head[head], other.head[head])


def test_every_weight_that_is_written_down_is_there(tiny: Path, reader: PairReader) -> None:
    network = made(tiny, reader)
    exported = network.exported(1.0, 0.0)
    assert set(HEAD) <= set(exported)
    # The table of words is kept in 16 bits.
    assert len(cross_encoder_model(exported, network.shape, 1, reader.separator)) < 3_500_000
