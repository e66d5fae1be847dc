"""What `python -m benchmarks.workflows --real` and `--gpu` reckon, read and write; the measuring itself needs vLLM."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks.workflows import gpu, questions, real
from benchmarks.workflows.real_workflow import MODEL, NAME, STEPS, workflow
from workflows.declared import World, read_definition
from workflows.definition import PASSES

WORLD = World({"local": frozenset({"embed", "rerank"})}, lambda name: name == MODEL, lambda name: False)


@pytest.mark.parametrize("chained", [True, False])
@pytest.mark.parametrize("passes", [True, False])
def test_the_workflow_is_one_that_the_gateway_takes(chained: bool, passes: bool) -> None:
    definition = read_definition(NAME, workflow(passes=passes, chained=chained), WORLD)
    assert definition.chained == chained
    assert definition.passes == (frozenset(PASSES) if passes else frozenset())
    assert set(definition.steps) == {*STEPS, "index"}


@pytest.mark.parametrize("module", [real, gpu])
def test_without_data_it_says_so(
    module: argparse.Namespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert module.main(argparse.Namespace(data=tmp_path, requests=1, json=None)) == 0
    assert capsys.readouterr().out.startswith(f"skipped: {questions.FILE} is not in")
