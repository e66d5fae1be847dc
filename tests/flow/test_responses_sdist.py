"""The OpenAI SDK's own tests of `/v1/responses` end through the gateway as they do straight at the upstream."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import sys
import tarfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.flow.line import line, upstream
from tests.flow.responses_upstream import ResponsesUpstream

pytest.importorskip("openai")
pytestmark = pytest.mark.slow

TESTS = "tests/api_resources/test_responses.py"
MODEL = "gpt-6-astra"
"""The one that the SDK's tests ask for."""


async def run(*command: str, cwd: Path, **env: str) -> int:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=os.environ | env,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    return await process.wait()


@pytest.fixture
async def sdist(tmp_path: Path) -> Path:
    """The SDK's source with its tests, of the version that is installed; UNDERSTUDY_OPENAI_SDIST names one that is there."""
    if given := os.environ.get("UNDERSTUDY_OPENAI_SDIST"):
        return Path(given)
    version = importlib.metadata.version("openai")
    pip = sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", "."
    if await run(*pip, "--no-build-isolation", f"openai=={version}", cwd=tmp_path):
        pytest.skip(f"no source distribution of openai {version} can be had here")
    (packed,) = tmp_path.glob("openai-*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / f"openai-{version}"


async def outcomes(sdist: Path, url: str, report: Path) -> dict[str, str]:
    """What came of each test, by its name."""
    chosen = "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", "-o", "filterwarnings=default"
    await run(
        *(sys.executable, "-m", "pytest", "-q", TESTS, f"--junitxml={report}", *chosen),
        cwd=sdist,
        TEST_API_BASE_URL=url,
        PYTHONPATH=f"{sdist / 'src'}{os.pathsep}{sdist}",
    )
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        found[case.attrib["classname"] + case.attrib["name"]] = next((one.tag for one in case), "passed")
    return found


async def test_the_sdks_own_tests_end_as_straight_at_the_upstream(sdist: Path, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(upstream())
        script = server.script = ResponsesUpstream("large")
        script.knows_all = True
        engines = {name: {"base_url": server.url} for name in ("small", "large")}
        config: dict[str, Any] = {
            "upstream": {"base_url": server.url},
            "engines": engines,
            "models": {MODEL: {"engines": ["small", "large"]}},
        }
        bare = await stack.enter_async_context(line(config))
        full = await stack.enter_async_context(
            line(config | {"memory": {"data_dir": str(tmp_path / "data")}})
        )
        straight = await outcomes(sdist, server.url, tmp_path / "straight.xml")
        assert sum(outcome == "passed" for outcome in straight.values()) > 100
        for name, gate in (("bare", bare), ("full", full)):
            through = await outcomes(sdist, gate.url, tmp_path / f"{name}.xml")
            assert through == straight
