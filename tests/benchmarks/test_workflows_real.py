"""What `python -m benchmarks.workflows --real` and `--gpu` reckon, read and write; the measuring itself needs vLLM."""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from benchmarks.workflows import gpu, questions, real
from benchmarks.workflows.real_measuring import Answered, Measured, Pair
from benchmarks.workflows.real_workflow import MODEL, NAME, STEPS, workflow
from benchmarks.workflows.written_model import Shape, write_model
from workflows.declared import World, read_definition
from workflows.definition import PASSES

WORLD = World({"local": frozenset({"embed", "rerank"})}, lambda name: name == MODEL, lambda name: False)
GIB = 2**30


def recorded(folder: Path, count: int) -> Path:
    """So many questions with two passages each, one of them the former question's."""
    rows = [
        {"prompt": f"question {n}", "context": [["before", f"passage {n - 1}"], ["own", f"passage {n}"]]}
        for n in range(count)
    ]
    with gzip.open(folder / questions.FILE, "wt", encoding="utf-8") as file:
        file.write("\n".join(map(json.dumps, rows)))
    return folder


def answered(seconds: float, **values: str) -> Answered:
    return Answered(seconds, values.get("answer", ""), values, 0, 0, 1.5)


def test_each_document_is_of_a_group_and_holds_a_passage_once(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    found = questions.questions(recorded(tmp_path / "data", 2 * questions.GROUP + 1))
    assert [one.text for one in found] == ["question 0", f"question {questions.GROUP}"]
    assert found[0].document.count("\n\n") == 2 * questions.GROUP - 1
    assert found[0].document.startswith("before\npassage -1\n\nown\npassage 0\n\n")


@pytest.mark.parametrize("chained", [True, False])
@pytest.mark.parametrize("passes", [True, False])
def test_the_workflow_is_one_that_the_gateway_takes(chained: bool, passes: bool) -> None:
    definition = read_definition(NAME, workflow(passes=passes, chained=chained), WORLD)
    assert definition.chained == chained
    assert definition.passes == (frozenset(PASSES) if passes else frozenset())
    assert set(definition.steps) == {*STEPS, "index"}


def test_the_ratio_is_of_all_time() -> None:
    found = Measured(
        [
            Pair("a", answered(1.0), answered(2.0)),
            Pair("b", answered(3.0), answered(4.0)),
        ]
    )
    assert found.ratio == pytest.approx(1.5)
    low, high = found.ratio_between()
    assert 4 / 3 <= low <= found.ratio <= high <= 2
    assert "| passes off | 3.00   | 3.00     | 2.00      | 4.00      | 1.50       |" in found.lines()[0]


def test_the_first_step_that_differs_is_named() -> None:
    off = answered(1.0, queries="q", found="f", answer="a")
    assert Pair("", answered(1.0, queries="q", found="f", answer="a"), off).differs_at == ""
    assert Pair("", answered(1.0, queries="q", found="g", answer="b"), off).differs_at == "found"


@pytest.mark.parametrize("module", [real, gpu])
def test_without_data_it_says_so(
    module: argparse.Namespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert module.main(argparse.Namespace(data=tmp_path, requests=1, json=None)) == 0
    assert capsys.readouterr().out.startswith(f"skipped: {questions.FILE} is not in")


def test_without_vllm_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VLLM_ENV", str(tmp_path))
    chosen = argparse.Namespace(data=recorded(tmp_path, questions.GROUP), requests=1, json=None)
    assert real.main(chosen) == 0
    assert "skipped: vLLM is not installed" in capsys.readouterr().out


def test_without_a_gpu_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(real.Absent, match="no nvidia-smi"):
        gpu.gpus()
    command = tmp_path / "nvidia-smi"
    for said, match in (("echo No devices were found", "lists none"), ("exit 9", "exit status 9")):
        command.write_text(f"#!/bin/sh\n{said}\n")
        command.chmod(0o755)
        with pytest.raises(real.Absent, match=match):
            gpu.gpus()
    command.write_text("#!/bin/sh\necho 81000\necho 142000\n")
    assert gpu.gpus() == [81_000 * 2**20, 142_000 * 2**20]


def test_the_servers_are_apart_where_they_can_be() -> None:
    assert gpu.places([80 * GIB, 80 * GIB]) == (0, 1)
    assert gpu.places([8 * GIB, 80 * GIB]) == (1, 1)
    with pytest.raises(real.Absent, match=r"need 30 GiB each of a GPU, and free are \(GiB\): 24, 24"):
        gpu.places([24 * GIB, 24 * GIB])


def test_vllm_for_the_gpu_is_named_or_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for variables in ({}, {gpu.ENVIRONMENT: str(tmp_path)}):
        with pytest.raises(real.Absent, match=gpu.ENVIRONMENT):
            gpu.environment(variables)
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "vllm"
    command.touch(0o755)
    assert gpu.environment({gpu.ENVIRONMENT: str(tmp_path)}) == tmp_path
    monkeypatch.setenv("PATH", str(command.parent))
    assert gpu.environment({}) == tmp_path


def test_a_written_model_has_a_text_for_every_token_and_reads_any(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    parameters = 2 * config["vocab_size"] * config["hidden_size"] + config["num_hidden_layers"] * (
        4 * config["hidden_size"] ** 2 + 3 * config["hidden_size"] * config["intermediate_size"]
    )
    assert 6.7e9 < parameters < 6.8e9
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == config["vocab_size"]
    assert len({tokenizer.decode([token], skip_special_tokens=False) for token in range(3, 32_000)}) > 31_000
    text = 'Où? ["a", "b"] 日本'
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    with pytest.raises(ValueError, match="more than 100"):
        write_model(tmp_path / "small", Shape(vocabulary=100))
