"""The written cross-encoder computes what is written in its docstring, from weights alone and without torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from router.embedding.minilm_onnx import Shape, UnsuitableModel, read_shape
from router.embedding.onnx_session import import_onnxruntime
from router.examples.scorer_artifact import check_ports, declared
from router.learning.cross_encoder_graph import cross_encoder_model
from router.learning.cross_encoder_texts import padded
from tests.router.embedding.tiny_bert import HIDDEN, POSITIONS, write_tiny_bert

SEPARATOR = 3
ALONE, MENDED, SPOILT = 0.3, 0.6, 0.1
Read = list[tuple[list[int], list[int]]]


def log_odds(chance: float) -> float:
    return float(np.log(chance / (1 - chance)))


def weights(tmp_path: Path, **changes: Any) -> tuple[dict[str, np.ndarray], Shape]:
    """A head that says the same of every pair, unless changed."""
    folder = write_tiny_bert(tmp_path / "bert")
    head = {
        "match": np.zeros(HIDDEN),
        "head.hidden.weight": np.zeros((3 * HIDDEN, 5)),
        "head.hidden.bias": np.zeros(5),
        "head.effects.weight": np.zeros((5, 2)),
        "head.effects.bias": np.array([log_odds(MENDED), log_odds(SPOILT)]),
        "head.alone.weight": np.zeros((3 * HIDDEN, 1)),
        "head.alone.bias": np.array([log_odds(ALONE)]),
        "slope": np.array([1.0]),
        "offset": np.array([0.0]),
    }
    found = load_file(folder / "model.safetensors") | head | changes
    return {name: np.asarray(array, np.float32) for name, array in found.items()}, read_shape(folder)


def session(given: dict[str, np.ndarray], shape: Shape) -> Any:
    model = cross_encoder_model(given, shape, 2, SEPARATOR)
    return import_onnxruntime().InferenceSession(model, providers=["CPUExecutionProvider"])


def qualities(opened: Any, read: Read) -> np.ndarray:
    return np.asarray(opened.run(None, padded(read))[0])


def pair(request: list[int], example: list[int]) -> tuple[list[int], list[int]]:
    first, second = [2, *request, SEPARATOR], [*example, SEPARATOR]
    return first + second, [0] * len(first) + [1] * len(second)


def looking(tmp_path: Path, **changes: Any) -> tuple[dict[str, np.ndarray], Shape]:
    """A head that looks at everything, by random weights."""
    generator = np.random.default_rng(1)
    sizes = {"match": (HIDDEN,), "head.hidden.weight": (3 * HIDDEN, 5), "head.effects.weight": (5, 2)}
    drawn = {name: generator.standard_normal(size) * 0.5 for name, size in sizes.items()}
    return weights(tmp_path, **(drawn | changes))


def test_quality_with_is_alone_less_what_is_spoilt_and_more_what_is_mended(tmp_path: Path) -> None:
    found = qualities(session(*weights(tmp_path)), [pair([10, 11], []), pair([10, 11], [12, 13])])
    expected = ALONE * (1 - SPOILT) + (1 - ALONE) * MENDED
    assert found == pytest.approx([ALONE, expected], abs=1e-5)


def test_calibration_is_a_line_through_the_log_odds_of_all(tmp_path: Path) -> None:
    read = [pair([10, 11], []), pair([10, 11], [12, 13])]
    plain = qualities(session(*weights(tmp_path)), read)
    line = qualities(session(*weights(tmp_path, slope=[2.0], offset=[-0.5])), read)
    odds = np.log(plain / (1 - plain))
    assert line == pytest.approx(1 / (1 + np.exp(-(2 * odds - 0.5))), abs=1e-5)


def test_padding_changes_nothing(tmp_path: Path) -> None:
    opened = session(*looking(tmp_path))
    alone, short, long = pair([10, 11], []), pair([10, 11], [12]), pair([10, 11], list(range(12, 40)))
    together = qualities(opened, [alone, short, long])
    apart = qualities(opened, [alone, short])
    assert together[:2] == pytest.approx(apart, abs=1e-5)
    assert abs(together[2] - together[1]) > 1e-4


def test_what_both_texts_say_is_marked_but_not_the_separator(tmp_path: Path) -> None:
    marked = session(*looking(tmp_path))
    unmarked = session(*looking(tmp_path, match=np.zeros(HIDDEN)))
    strange = [pair([10, 11], []), pair([10, 11], [12, 13])]
    assert qualities(marked, strange) == pytest.approx(qualities(unmarked, strange), abs=1e-6)
    same = [pair([10, 11], []), pair([10, 11], [10, 13])]
    assert abs(qualities(marked, same)[1] - qualities(unmarked, same)[1]) > 1e-4


def test_a_request_without_candidates_has_its_quality(tmp_path: Path) -> None:
    assert qualities(session(*weights(tmp_path)), [pair([10], [])]) == pytest.approx([ALONE], abs=1e-5)


def test_it_declares_what_it_is_and_has_the_ports_of_that(tmp_path: Path) -> None:
    opened = session(*weights(tmp_path))
    said = declared(opened.get_modelmeta().custom_metadata_map)
    assert said.signature == "cross_encoder"
    inputs, outputs = ([port.name for port in ports] for ports in (opened.get_inputs(), opened.get_outputs()))
    check_ports(said.signature, inputs, outputs)


def test_the_longest_pair_is_as_long_as_the_table_of_positions(tmp_path: Path) -> None:
    opened = session(*weights(tmp_path))
    longest = pair([10], [11] * (POSITIONS - 4))
    assert len(longest[0]) == POSITIONS
    assert qualities(opened, [longest]).shape == (1,)


def test_it_is_written_without_torch_and_a_missing_weight_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    given, shape = weights(tmp_path)
    assert cross_encoder_model(given, shape, 1, SEPARATOR)
    del given["head.hidden.bias"]
    with pytest.raises(UnsuitableModel, match=r"head\.hidden\.bias"):
        cross_encoder_model(given, shape, 1, SEPARATOR)
