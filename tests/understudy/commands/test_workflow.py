"""`understudy workflow check|explain`: configurations and single workflows, faults, and drawings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from understudy.__main__ import main

WORKFLOW = """\
inputs: {question: last_user, documents: texts}
steps:
  chunks:  {split: "{{documents}}", tokens: 256, overlap: 30}
  index:   {ingest: "{{chunks}}"}
  queries: {chat: "Rewrite in 3 ways, as a JSON list: {{question}}", model: gpt-4o, splits: json}
  found:   {search: "{{queries}}", in: "{{index}}", k: 16}
  top:     {rerank: "{{found}}", by: "{{question}}", k: 3}
  answer:  {fold: "{{top}}", chat: "Passage: {{item}}. So far: {{so_far}}. Asked: {{question}}", model: gpt-4o}
output: answer
"""
CONFIG = f"""\
engines: {{small: {{kind: vllm, base_url: "http://127.0.0.1:9/v1"}}}}
models: {{gpt-4o: {{engines: [small]}}}}
memory: {{data_dir: null}}
workflows:
  max_items: 50
  doc-qa:
{"".join(f"    {line}" for line in WORKFLOW.splitlines(keepends=True))}"""


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["workflow", *args])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    path = tmp_path / "doc-qa.yaml"
    path.write_text(WORKFLOW, encoding="utf-8")
    return path


def test_check_names_the_workflows_of_a_configuration(config: Path) -> None:
    ended = run("check", str(config))
    assert ended.exit_code == 0, ended.output
    assert ended.output.startswith("doc-qa  version ") and "6 steps  question (last_user)" in ended.output
    (told,) = json.loads(run("check", str(config), "--json").output)
    assert told["workflow"] == "doc-qa" and told["steps"]["top"] == "rerank" and told["output"] == "answer"


def test_check_takes_a_workflow_in_a_file_of_its_own(alone: Path, config: Path) -> None:
    assert run("check", str(alone)).exit_code == 0
    checked = run("check", str(alone), "--config", str(config))
    assert checked.exit_code == 0, checked.output
    alone.write_text(WORKFLOW.replace("gpt-4o", "other"), encoding="utf-8")
    assert run("check", str(alone)).exit_code == 0
    told = run("check", str(alone), "--config", str(config))
    assert told.exit_code == 2
    assert 'workflows.doc-qa.steps.queries.model is "other": there is no such model' in told.output


def test_check_lists_every_fault(config: Path) -> None:
    config.write_text(CONFIG.replace("{{chunks}}", "{{chunk}}").replace("k: 3", "k: 51"), encoding="utf-8")
    told = run("check", str(config))
    assert told.exit_code == 2
    assert "did you mean {{chunks}}?" in told.output
    assert (
        "workflows.doc-qa.steps.top.k is 51: is out of range; write a whole number from 1 to 50"
        in told.output
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [("- a", "must be a configuration or a workflow"), ("a: [", "is not valid YAML"), (None, "cannot read")],
)
def test_a_file_that_is_neither_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "x.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    ended = run("check", str(path))
    assert ended.exit_code == 2 and said in ended.output


def test_explain_draws_both_graphs_with_the_pass_behind_each_change(config: Path) -> None:
    ended = run("explain", str(config), "--items", "queries=3")
    assert ended.exit_code == 0, ended.output
    text = ended.output
    assert "p-graph: as declared" in text and "e-graph: as carried out" in text
    assert "prune: found.embed no longer waits for index: it reads nothing of it" in text
    assert "decoding: queries hands each item on to found.embed" in text
    assert "found.embed[2]  Embedding 3 [1]" in text


def test_explain_has_a_twin_for_machines(alone: Path) -> None:
    (told,) = json.loads(run("explain", str(alone), "--json").output)
    assert {"p_graph", "e_graph", "changes"} <= set(told)
    assert {change["by"] for change in told["changes"]} >= {"prune", "decoding"}
    assert len(told["e_graph"]["nodes"]) > len(told["p_graph"]["nodes"])


def test_without_passes_both_graphs_are_alike(alone: Path) -> None:
    alone.write_text(WORKFLOW + "passes: []\n", encoding="utf-8")
    (told,) = json.loads(run("explain", str(alone), "--json").output)
    assert told["e_graph"] == told["p_graph"] and told["changes"] == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--items", "x"), "write NAME=N"),
        (("--items", "nope=3"), "nothing is called so; there are answer, chunks"),
        (("--workflow", "other"), "there is no workflow 'other'"),
    ],
)
def test_what_cannot_be_explained_is_told(config: Path, more: tuple[str, ...], said: str) -> None:
    ended = run("explain", str(config), *more)
    assert ended.exit_code != 0 and said in ended.output


def test_explain_draws_the_paper_s_figure_6_of_its_figure_2d(config: Path) -> None:
    """Teola's advanced RAG, as the reference writes it: what the paper's optimised graph has, edge by edge."""
    answer = 'chat: "Passage: {{item}}. So far: {{so_far}}. Asked: {{question}}"'
    asked = 'chat: "Answer {{question}} from {{item}} and {{so_far}}"'
    config.write_text(CONFIG.replace(answer, asked).replace("k: 16", "k: 5"), encoding="utf-8")
    ended = run(
        "explain", str(config), "--items", "chunks=48", "--items", "queries=3", "--items", "top=3", "--json"
    )
    assert ended.exit_code == 0, ended.output
    (told,) = json.loads(ended.output)
    labels = {node["id"]: node["label"] for node in told["e_graph"]["nodes"]}
    waits: dict[str, set[str]] = {id: set() for id in labels}
    for edge in told["e_graph"]["edges"]:
        waits[edge["after"]].add(edge["before"])

    def behind(id: str) -> set[str]:
        return waits[id].union(*map(behind, waits[id]))

    for n in range(3):
        assert waits[f"found.embed[{n}]"] == {"queries"}
        assert waits[f"found.search[{n}]"] == {f"found.embed[{n}]", "index"}
        assert waits[f"top.rerank[{n}]"] == {f"found.search[{n}]"}
        assert labels[f"answer[{n}]"].startswith(f"Chat {n + 1}: {{{{question}}}}")
    assert not any(id.startswith("queries") for id in behind("index")), "indexing hangs on no expansion"
    assert not any(id.startswith("index") for id in behind("found.embed[2]")), "nor expansion on indexing"
