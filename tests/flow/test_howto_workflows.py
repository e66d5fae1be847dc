"""Workflows of the how-to and of the reference, as they stand there, at a real gateway process with a simulated reader."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml

from tests.fences import fences
from tests.flow.process import Gateway, running
from tests.patience import PATIENCE_S

DOCS = Path(__file__).parent.parent.parent / "docs"
GUIDES = (DOCS / "how-to" / "workflows.md", DOCS / "reference" / "workflows.md")
BLOCKS = [yaml.safe_load(fence.text) for page in GUIDES for fence in fences(page, "yaml")]
WORKFLOWS = {name: each for block in BLOCKS for name, each in block["workflows"].items()}
COMPONENTS = {
    name: {"kind": "simulated", "fixed_ms": 1} for block in BLOCKS for name in block.get("components", {})
}
PAGES = [
    "The boiler stands in the cellar. Its valve is closed by turning the red wheel to the right.",
    "The roof is cleaned every spring. A ladder hangs in the shed.",
]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("howto")
    config = {
        "engines": {"reader": {"kind": "simulated", "role": "reader", "ttft_ms": 1, "token_ms": 0}},
        "models": {"gpt-4o": {"engines": ["reader"]}},
        "memory": {"data_dir": str(folder / "data")},
        "components": COMPONENTS,
        "workflows": {name: _with_local(each) for name, each in WORKFLOWS.items()},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    with running("--config", str(folder / "config.yaml")) as gateway:
        yield gateway


def _with_local(workflow: dict[str, Any]) -> dict[str, Any]:
    """The page's tool is simulated here, and a simulated component embeds, too: say who does."""
    steps = {
        name: {**step, "component": "local"} if {"ingest", "search", "rerank"} & set(step) else step
        for name, step in workflow["steps"].items()
    }
    return {**workflow, "steps": steps}


def ask(gateway: Gateway, model: str, question: str, **inputs: Any) -> tuple[str, dict[str, Any]]:
    """What a workflow answers, and its run."""
    asked = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "understudy": {"inputs": inputs},
    }
    body, headers = gateway.post("/chat/completions", asked)
    request = Request(
        f"{gateway.url}/runs/{headers['x-understudy-run']}", headers={"Authorization": "Bearer sk-client"}
    )
    with urlopen(request, timeout=PATIENCE_S) as shown:
        run = json.loads(shown.read())
    return json.loads(body)["choices"][0]["message"]["content"], run


def test_every_workflow_of_the_page_is_tried_here() -> None:
    assert set(WORKFLOWS) == {"doc-qa", "keep-manual", "ask-manual", "triage", "open-ticket"}


@pytest.mark.slow
def test_documents_that_come_with_a_question(gateway: Gateway) -> None:
    said, run = ask(gateway, "doc-qa", "How is the valve of the boiler closed?", documents=PAGES)
    assert said == "Its valve is closed by turning the red wheel to the right."
    assert run["status"] == "done" and {step["status"] for step in run["steps"]} == {"done"}


def test_documents_that_are_kept_are_found_later_and_by_nobody_else(gateway: Gateway) -> None:
    said, run = ask(gateway, "keep-manual", "", pages=PAGES)
    assert run["status"] == "done" and said.startswith("The boiler stands")
    said, run = ask(gateway, "ask-manual", "Where does a ladder hang?")
    assert said == "A ladder hangs in the shed." and run["status"] == "done"
    other = Request(
        f"{gateway.url}/chat/completions",
        json.dumps(
            {"model": "ask-manual", "messages": [{"role": "user", "content": "Where is a ladder?"}]}
        ).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer sk-somebody-else"},
    )
    try:
        with urlopen(other, timeout=PATIENCE_S) as answered:
            assert "shed" not in answered.read().decode()
    except HTTPError as refused:
        assert refused.code == 424 and "shed" not in refused.read().decode()


@pytest.mark.parametrize(
    ("question", "branch"), [("Is my bill right?", "other"), ("The bill is here. Which bill?", "bill")]
)
def test_a_branch_that_is_not_taken_is_skipped(gateway: Gateway, question: str, branch: str) -> None:
    _, run = ask(gateway, "triage", question)
    assert run["status"] == "done"
    states = {step["name"]: step["status"] for step in run["steps"]}
    assert states[branch] == "done" and states[{"bill": "other", "other": "bill"}[branch]] == "skipped"


@pytest.mark.slow
def test_a_tool_with_effects_is_called_once(gateway: Gateway) -> None:
    said, run = ask(gateway, "open-ticket", "The lamp in the hall is broken. What now?")
    (opened,) = [step for step in run["steps"] if step["name"] == "opened"]
    assert run["status"] == "done" and opened["status"] == "done" and said
    assert json.loads(run["variables"]["opened"]["value"])["simulated"] == "ticket"
