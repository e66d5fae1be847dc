"""Gateways that only answer, and a process that only works in the background, over one store."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.flow.process import Gateway, running
from tests.flow.test_learner_process import CONFIG, MODELS, chat
from tests.patience import PATIENCE_S
from understudy.commands.serve import serve
from understudy.processes.wanted import helpers_wanted
from understudy.settings.file import load_config


def get(run: Gateway, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(run.origin + path, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_each_role_has_its_processes(tmp_path: Path) -> None:
    written = tmp_path / "config.yaml"
    text = CONFIG.format(data=tmp_path / "data", models=MODELS, workers=1, enabled="true")
    written.write_text(text + "replay: {enabled: true}\njudging: {engine: sim}\n")
    config = load_config(written)
    assert helpers_wanted(config) == ["learner", "replayer", "admin"]
    assert helpers_wanted(config, "gateway") == ["admin"]
    assert helpers_wanted(config, "background") == ["learner", "replayer"]


@pytest.mark.slow
def test_what_is_learnt_in_the_background_is_used_by_the_gateway(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        CONFIG.format(data=tmp_path / "data", models=MODELS, workers=1, enabled="true"), encoding="utf-8"
    )
    with ExitStack() as stack:
        gateway = stack.enter_context(running("--config", str(config), "--role", "gateway"))
        background = stack.enter_context(running("--config", str(config), "--role", "background"))
        assert get(background, "/healthz")[0] == 200
        status, ready = get(background, "/readyz?settled=1")
        assert (status, json.loads(ready)["status"]) == (200, "ok")
        assert get(background, "/metrics")[0] == 200
        status, refused = get(background, "/v1/models")
        assert (status, json.loads(refused)["error"]["code"]) == (404, "unknown_url")
        for number in range(3):
            decision = chat(gateway, f"What is the population of place number {number}?")
            gateway.post("/feedback", {"decision_id": decision, "score": 1.0})
        background.wait_for_event("artifact_published")
        places = count()
        gateway.wait_for(
            lambda: chat(gateway, f"Where is {next(places)}?") and gateway.events("artifact_in_use"),
            "the gateway using it",
        )
        assert not gateway.events("learning") and not gateway.events("artifact_published")
        assert background.stop() == 0 and gateway.stop() == 0


def test_there_is_no_background_without_memory() -> None:
    told = CliRunner().invoke(serve, ["--upstream", "http://127.0.0.1:9", "--role", "background"])
    assert told.exit_code == 2 and "without `memory`" in told.output
