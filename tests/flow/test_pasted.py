"""Blocks of the README, tutorials and how-tos are run as they stand, beside the files that their pages tell to write."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.fences import GUIDES, ROOT, Fence, fences
from tests.flow.process import START_S, Gateway, running
from tests.flow.test_howto_workflows import COMPONENTS, WORKFLOWS, _with_local

pytestmark = pytest.mark.slow
TRIED_ELSEWHERE = ("applications.md", "rag.md")
"""Whose blocks need models of their own: tests/flow/test_applications.py and test_tutorial_rag.py run them."""
RUN = [page for page in GUIDES if any(fence.needs == "run" for fence in fences(page))]
ASKING = [
    (page, language)
    for page in GUIDES
    for language in ("sh", "python")
    if page.name not in TRIED_ELSEWHERE and any(fence.needs == "gateway" for fence in fences(page, language))
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder with the program where the pages have it."""
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    program = binaries / "understudy"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m understudy "$@"\n')
    program.chmod(0o755)
    return tmp_path


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    place = tmp_path_factory.mktemp("pasted")
    config = {
        "engines": {"reader": {"kind": "simulated", "role": "reader", "ttft_ms": 1, "token_ms": 0}},
        "models": {"gpt-4o*": {"engines": ["reader"]}},
        "memory": {"data_dir": str(place / "data")},
        "components": COMPONENTS,
        "workflows": {name: _with_local(each) for name, each in WORKFLOWS.items()},
    }
    (place / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    with running("--config", str(place / "config.yaml")) as listening:
        yield listening


def pasted(fence: Fence, folder: Path, url: str = "") -> subprocess.CompletedProcess[bytes]:
    """What a block does in a folder; `url`: of the gateway that listens at the address that it names."""
    text = fence.text.replace("http://127.0.0.1:8080/v1", url).replace(
        "http://127.0.0.1:8080", url.removesuffix("/v1")
    )
    words = [sys.executable, "-"] if fence.language == "python" else ["bash", "-e"]
    environment = os.environ | {
        "PATH": f"{folder / '.venv' / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "OPENAI_API_KEY": "sk-reader",
        "OPENAI_BASE_URL": url,
    }
    return subprocess.run(
        words,
        input=text.encode(),
        cwd=folder,
        env=environment,
        capture_output=True,
        timeout=START_S,
        check=False,
    )


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_what_needs_only_the_program_runs(page: Path, folder: Path) -> None:
    for fence in fences(page):
        if fence.file:
            (folder / fence.file).write_text(fence.text, encoding="utf-8")
        if fence.needs == "run":
            done = pasted(fence, folder)
            assert done.returncode == 0, (fence, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("page", "language"), ASKING, ids=[f"{page.name}-{language}" for page, language in ASKING]
)
def test_what_needs_a_gateway_runs(page: Path, language: str, folder: Path, gateway: Gateway) -> None:
    for fence in fences(page, language):
        if fence.needs == "gateway":
            done = pasted(fence, folder, gateway.url)
            assert done.returncode == 0, (fence, done.stdout, done.stderr)
            assert b'"error"' not in done.stdout, (fence, done.stdout)
