"""Agents as their makers publish them finish a session of ten turns with tools on every kind of engine: Codex, Claude Code,
and frameworks in the API that each asks by default.

Their upstreams are scripts: nothing leaves this machine, and no account is used.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
import tempfile
import venv
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.flow.agents_upstream import TURNS, AgentsUpstream
from tests.flow.line import Line, Upstream, line, upstream
from tests.flow.test_sdk_node import HERE as NODE
from tests.flow.test_sdk_node import installed

pytestmark = [pytest.mark.node, pytest.mark.slow]
SESSION_S = 120
INSTALL_S = 300
HERE = Path(__file__).parent / "agents"
MODEL = "served-model"
UPSTREAMS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "all": (("chat", "responses", "messages"), {"apis": ["chat", "responses", "messages"]}),
    "chat": (("chat",), {"apis": ["chat"], "drops": ["web_search", "verbosity"]}),
    "vllm": (("chat", "messages"), {"apis": ["chat", "messages"], "drops": ["web_search"]}),
    "messages": (("messages",), {"apis": ["messages"], "drops": ["web_search", "verbosity"]}),
    "responses": (("responses",), {"apis": ["responses"]}),
}
"""The APIs that an engine of this kind speaks, and what is configured of it."""


@pytest.fixture(scope="module")
def clients() -> Path:
    """The folder of the programs."""
    folder = installed(HERE)
    claude = folder / "node_modules" / "@anthropic-ai" / "claude-code"
    subprocess.run(["node", "install.cjs"], cwd=claude, capture_output=True, timeout=SESSION_S, check=True)
    return folder / "node_modules" / ".bin"


@asynccontextmanager
async def stage(
    kind: str, folder: Path, *, passes: bool, **settings: Any
) -> AsyncIterator[tuple[Line, AgentsUpstream, Upstream]]:
    apis, more = UPSTREAMS[kind]
    script = AgentsUpstream(apis, parallel=True)
    async with upstream() as engine:
        engine.script = script
        if passes:
            config: dict[str, Any] = {"upstream": {"base_url": engine.url}}
        else:
            config = {
                "engines": {"one": {"base_url": engine.url} | more},
                "models": {MODEL: {"engines": ["one"]}},
                "memory": {"data_dir": str(folder / "data")},
            }
        async with line(config | settings) as gate:
            yield gate, script, engine


async def ran(folder: Path, environment: dict[str, str], *command: str) -> str:
    """What a program said; it must end well."""
    home = folder / "home"
    home.mkdir()
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=home,
        env={"PATH": os.environ["PATH"], "HOME": str(home)} | environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(SESSION_S):
            said = (await process.communicate())[0].decode()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, said[-3000:]
    return said


async def codex(folder: Path, clients: Path, gate: Line, **provider: str) -> str:
    given = {"name": "here", "base_url": gate.url, "env_key": "KEY", "wire_api": "responses"} | provider
    told = ", ".join(
        f"{name}={value}" if value == "true" else f'{name}="{value}"' for name, value in given.items()
    )
    settings = (f'model="{MODEL}"', 'model_provider="here"', f"model_providers.here={{{told}}}")
    options = [part for setting in settings for part in ("-c", setting)]
    command = (
        str(clients / "codex"),
        "exec",
        "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
    )
    return await ran(folder, {"KEY": "sk-client"}, *command, *options, "Run the commands.")


async def claude(folder: Path, clients: Path, gate: Line) -> str:
    environment = {
        "ANTHROPIC_BASE_URL": gate.url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": "sk-client",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    command = (str(clients / "claude"), "-p", "Run the commands.", "--allowedTools", "Bash", "--model", MODEL)
    return await ran(folder, environment, *command)


def finished(said: str, script: AgentsUpstream, engine: Upstream) -> None:
    assert "All done." in said
    asked = [one.json for one in engine.asked if one.body]
    last = str([one for one in asked if one.get("tools")][-1])
    assert all(f"turn {number}" in last for number in range(TURNS + 1)), "each command's output came back"
    assert script.unspoken == []


AGENTS = {"codex": codex, "claude": claude}
FRAMEWORKS = (
    *("openai_agents", "pydantic_ai_openai", "pydantic_ai_anthropic"),
    *("langgraph_openai", "langgraph_anthropic"),
)


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of an environment with the frameworks, kept between runs."""
    wanted = (HERE / "requirements.txt").read_bytes()
    folder = Path(tempfile.gettempdir()) / f"understudy-agents-{hashlib.sha256(wanted).hexdigest()[:16]}"
    if not (folder / "made").exists():
        venv.create(folder, with_pip=True, clear=True)
        command = [str(folder / "bin" / "pip"), "install", "-q", "-r", str(HERE / "requirements.txt")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        if done.returncode:
            pytest.skip(f"pip cannot install the frameworks: {done.stderr.strip()[-300:]}")
        (folder / "made").touch()
    return folder / "bin" / "python"


@pytest.mark.parametrize("name", FRAMEWORKS)
@pytest.mark.parametrize("kind", UPSTREAMS)
async def test_a_framework_in_its_default_api(tmp_path: Path, python: Path, kind: str, name: str) -> None:
    async with stage(kind, tmp_path, passes=False) as (gate, script, engine):
        said = await ran(tmp_path, {}, str(python), str(HERE / "frameworks.py"), name, gate.url)
    finished(said, script, engine)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(("kind", "passes"), [("all", True), *((kind, False) for kind in UPSTREAMS)])
async def test_a_session_of_ten_turns(
    tmp_path: Path, clients: Path, agent: str, kind: str, passes: bool
) -> None:
    async with stage(kind, tmp_path, passes=passes) as (gate, script, engine):
        said = await AGENTS[agent](tmp_path, clients, gate)
    finished(said, script, engine)


@pytest.mark.parametrize("on", [True, False])
async def test_codex_over_a_websocket(tmp_path: Path, clients: Path, on: bool) -> None:
    listen = {"advanced": {"responses_websocket": on}}
    async with stage("all", tmp_path, passes=False, listen=listen) as (gate, _, engine):
        said = await codex(tmp_path, clients, gate, supports_websockets="true")
        async with gate.session.get(gate.url.removesuffix("/v1") + "/metrics") as told:
            counted = await told.text()
    assert "All done." in said
    assert sum(bool(one.body) for one in engine.asked) >= TURNS + 1
    assert f'status="{101 if on else 426}"' in counted


@pytest.mark.parametrize("name", ["openai", "anthropic"])
@pytest.mark.parametrize("kind", UPSTREAMS)
async def test_the_vercel_ai_sdk(tmp_path: Path, kind: str, name: str) -> None:
    folder = installed(NODE / "ai")
    shutil.copy(NODE / "ai" / "agent.mjs", folder)
    async with stage(kind, tmp_path, passes=False) as (gate, script, engine):
        said = await ran(tmp_path, {}, "node", str(folder / "agent.mjs"), name, gate.url)
    finished(said, script, engine)
