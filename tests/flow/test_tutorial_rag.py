"""docs/tutorial/rag.md as it stands: its files, a real gateway process, the OpenAI SDK, and what the page says comes out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fences import fences
from tests.flow.process import ran, running
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "tutorial" / "rag.md"
SIMULATED = "components: {pretended: {kind: simulated, fixed_ms: 2, item_ms: 0.2}}\n"


def blocks(language: str) -> list[str]:
    """The page's blocks of code of a language, in order."""
    return [fence.text for fence in fences(PAGE, language)]


CONFIG, ASK = blocks("yaml")[0], blocks("python")[0]
PRINTED = next(block for block in blocks("text") if " -> " in block)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "rag.yaml"
    path.write_text(CONFIG.replace("./rag-data", str(tmp_path / "rag-data")), encoding="utf-8")
    return path


@pytest.mark.parametrize("components", ["", SIMULATED], ids=["local", "simulated"])
@pytest.mark.slow
def test_the_tutorial_prints_what_it_says(config: Path, tmp_path: Path, components: str) -> None:
    config.write_text(config.read_text(encoding="utf-8") + components, encoding="utf-8")
    with running("--config", str(config)) as gateway:
        script = tmp_path / "ask.py"
        script.write_text(ASK.replace("http://127.0.0.1:8080", gateway.origin), encoding="utf-8")
        asked = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert (asked.returncode, asked.stdout) == (0, PRINTED), asked.stderr + gateway.log()
        status, listed, _ = ran("runs", "list", "--data", str(tmp_path / "rag-data"), "--json")
    assert status == 0
    runs = json.loads(listed)
    assert [run["state"] for run in runs] == ["done", "done"]
    assert all(run["done"] == run["steps"] > 0 for run in runs)


@pytest.mark.slow
def test_what_the_tutorial_checks_and_explains_is_there(config: Path) -> None:
    status, shown, told = ran("workflow", "check", str(config))
    assert (status, told) == (0, "") and shown.startswith("doc-qa  version ")
    status, shown, _ = ran("workflow", "explain", str(config), "--items", "chunks=6")
    assert status == 0
    assert "prune: found.embed no longer waits for index" in shown
    assert "decoding: queries hands each item on to found.embed" in shown


def test_a_misspelt_name_is_told_with_its_remedy(config: Path) -> None:
    config.write_text(config.read_text(encoding="utf-8").replace("{{chunks}}", "{{chunk}}"), encoding="utf-8")
    status, _, told = ran("workflow", "check", str(config))
    assert status == 2
    assert (
        'steps.index.ingest is "{{chunk}}": nothing is called' in told and "did you mean {{chunks}}?" in told
    )
