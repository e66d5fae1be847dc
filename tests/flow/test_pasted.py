"""Blocks of the README, tutorials and how-tos are run in their order, beside the files that pages tell to write.

What a page starts listens on free ports; mock servers stand in for APIs that it names. Blocks marked `yours` are left out. A
block of text marked `said` is what the block before it prints, among other lines.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from tests.fences import GUIDES, ROOT, Fence, fences
from tests.flow.process import START_S, Gateway, ran, running
from tests.flow.test_howto_workflows import COMPONENTS, WORKFLOWS, _with_local
from tests.patience import PATIENCE_S, wait_for

pytestmark = pytest.mark.slow
PAGES = [page for page in GUIDES if any(fence.needs not in ("", "yours", "said") for fence in fences(page))]
FILES = {fence.file: fence.text for page in reversed(GUIDES) for fence in fences(page) if fence.file}
"""What some page tells to save: others speak of a file of that name."""
LOG = "".join(FILES["pairs.jsonl"].replace("my invoice number", f"invoice number {n}") for n in range(12))
"""A log of requests, which pages speak of and none tells to save."""
A_KEY = "key_04029cb29cb3a540"
"""On a page: the id of the reader's key."""
ITS_ID = (
    f"$(understudy keys list --data ./data --json | {sys.executable} -c"
    """ 'import json, sys; print(json.load(sys.stdin)[0]["id"])')"""
)
GATEWAYS = ("4000", "8080")
"""Where a page has its gateway: LiteLLM's port, or ours."""
HOSTED, LOCAL = 8099, 8000
"""Ports of the servers that pages ask: of a hosted API, and of a model on the reader's machine."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def listening(line: str, port: int, folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """A command that goes on until it is stopped, once somebody listens on its port."""
    log = folder / f"{port}.log"
    with log.open("ab") as sink:
        words = ["bash", "-c", line]
        process = subprocess.Popen(words, cwd=folder, env=environment, stdout=sink, stderr=sink)

    def answers() -> bool:
        assert process.poll() is None, log.read_text(encoding="utf-8")
        with socket.socket() as asked:
            return asked.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_for(answers, line, log=lambda: log.read_text(encoding="utf-8"), timeout_s=START_S)
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


class Reader:
    """Somebody with a folder, the program, and what was started and exported so far."""

    def __init__(self, folder: Path, beside: Path, ports: dict[str, int], makes: str) -> None:
        """`beside`: the folder of the gateway that is asked; `makes`: names of the files that commands write."""
        self.folder, self.beside, self.ports, self.exported = folder, beside, ports, ""
        self.read = ""
        """What the last block printed."""
        binaries = folder / ".venv" / "bin"
        binaries.mkdir(parents=True)
        program = binaries / "understudy"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m understudy "$@"\n')
        program.chmod(0o755)
        self.environment = os.environ | {
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "OPENAI_API_KEY": "sk-reader",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{ports['8080']}/v1",
        }
        for name, text in FILES.items():
            if name not in makes:
                self.save(name, text)
        (folder / "spendlogs.jsonl.gz").write_bytes(gzip.compress(LOG.encode()))

    def save(self, name: str, text: str) -> None:
        (self.folder / name).write_text(self.here(text), encoding="utf-8")

    def here(self, text: str) -> str:
        """With the ports of this run, and the id of the key that is in the folder then."""
        text = text.replace("https://api.openai.com/v1", f"http://127.0.0.1:{HOSTED}/v1")
        text = re.sub(
            r"(127\.0\.0\.1:|--port )(\d+)",
            lambda found: found[1] + str(self.ports.setdefault(found[2], free_port())),
            text,
        )
        return text.replace(A_KEY, ITS_ID)

    def pastes(self, fence: Fence) -> None:
        """A block into a terminal that ends by itself."""
        python = fence.language == "python"
        words, before = ([sys.executable, "-"], "") if python else (["bash", "-e"], self.exported)
        done = subprocess.run(
            words,
            input=(before + self.here(fence.text)).encode(),
            cwd=self.beside if fence.needs == "gateway" else self.folder,
            env=self.environment,
            capture_output=True,
            timeout=START_S,
            check=False,
        )
        assert done.returncode == 0, (fence, done.stdout, done.stderr)
        self.read = done.stdout.decode().replace("\r", "")
        assert fence.needs != "gateway" or b'"error":{' not in done.stdout.replace(b": ", b":"), (
            fence,
            done.stdout,
        )
        self.keep(fence)

    def keep(self, fence: Fence) -> None:
        """What a terminal keeps: exported variables and functions."""
        found = re.findall(
            r"^export .*?$|^\w+\(\) \{$.*?^\}$", self.here(fence.text), re.MULTILINE | re.DOTALL
        )
        self.exported += "".join(f"{each}\n" for each in found if fence.language == "sh")

    def starts(self, fence: Fence, mocks: ExitStack, gateway: ExitStack) -> None:
        """What goes on until it is stopped, a line each; a gateway takes the place of the one before."""
        self.keep(fence)
        text = self.here(fence.text.replace("\\\n", " "))
        for line in re.findall(r"^\S*understudy [^#\n]*", text, re.MULTILINE):
            if " serve " in line:
                gateway.close()
                port = self.ports[next(name for name in GATEWAYS if name in self.ports)]
                line, stack = f"{line} --port {port} --admin off", gateway
            else:
                port, stack = int(line.partition("--port ")[2].split()[0]), mocks
            command = f"{self.exported}exec {line}"
            stack.enter_context(listening(command, port, self.folder, self.environment))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, mocks: dict[str, int]) -> Iterator[tuple[Gateway, Path]]:
    """A gateway for pages that start none, and its folder."""
    place = tmp_path_factory.mktemp("pasted")
    local = {"base_url": f"http://127.0.0.1:{mocks[str(LOCAL)]}/v1", "api_key": "none", "apis": ["chat"]}
    reader = {"kind": "simulated", "role": "reader", "ttft_ms": 1, "token_ms": 0}
    config = {
        "engines": {"reader": reader, "local": local},
        "models": {"gpt-4o*": {"engines": ["reader"]}, "claude": {"engines": ["local"]}},
        "memory": {"data_dir": str(place / "data")},
        "components": COMPONENTS,
        "workflows": {name: _with_local(each) for name, each in WORKFLOWS.items()},
    }
    (place / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    with running("--config", str(place / "config.yaml")) as gateway:
        yield gateway, place


@pytest.fixture(scope="module")
def mocks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """Ports of mock servers by the ports that pages name."""
    place = tmp_path_factory.mktemp("mocks")
    ports = {str(HOSTED): free_port(), str(LOCAL): free_port()}
    with ExitStack() as servers:
        for port in ports.values():
            line = f"exec {sys.executable} -m understudy load serve-mock --port {port}"
            servers.enter_context(listening(line, port, place, os.environ | {"PYTHONPATH": str(ROOT)}))
        yield ports


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a key and an example of tenant acme."""
    place = tmp_path_factory.mktemp("data")
    (place / "pairs.jsonl").write_text(FILES["pairs.jsonl"], encoding="utf-8")
    for line in ("keys create --tenant acme", f"import {place / 'pairs.jsonl'} --tenant acme"):
        status, _, why = ran(*line.split(), "--data", str(place / "data"))
        assert status == 0, why
    return place / "data"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_readers_paste_runs(
    page: Path, tmp_path: Path, served: tuple[Gateway, Path], mocks: dict[str, int], data: Path
) -> None:
    blocks = list(fences(page))
    makes = " ".join(re.findall(r"-o (\S+)", page.read_text(encoding="utf-8")))
    starts = "".join(fence.text for fence in blocks if fence.needs == "serve")
    ports = {name: port for name, port in mocks.items() if f"serve-mock --port {name}" not in starts}
    if "127.0.0.1:4000" in page.read_text(encoding="utf-8"):
        ports["4000"] = free_port()
    if "understudy serve " in starts:
        reader = Reader(tmp_path, tmp_path, ports | {"8080": free_port()}, makes)
    else:
        reader = Reader(tmp_path, served[1], ports | {"8080": served[0].port}, makes)
        shutil.copytree(data, tmp_path / "data")
    with ExitStack() as own, ExitStack() as gateway:
        for fence in blocks:
            if fence.file:
                reader.save(fence.file, fence.text)
            if fence.needs == "serve":
                reader.starts(fence, own, gateway)
            elif fence.needs in ("run", "gateway"):
                reader.pastes(fence)
            elif fence.needs == "said":
                assert not set(fence.text.splitlines()) - set(reader.read.splitlines()), reader.read
