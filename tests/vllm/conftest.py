"""Two real vLLM servers for all tests of this folder: the tiny lead as `large`, the tiny understudy as `small`.

`make test-vllm` installs vLLM and builds the models first. With UNDERSTUDY_VLLM_SMALL and UNDERSTUDY_VLLM_LARGE set to the
URLs (with /v1) of servers that run already, on a GPU say, those are used instead; tests that must start or kill a server
then skip. They must serve the tiny models, as `python -m benchmarks.tiny_models` makes them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tiny_models import building
from benchmarks.vllm import environment as vllm_environment
from benchmarks.vllm import serving as vllm_serving
from benchmarks.vllm.serving import Served
from tests.vllm import held
from tests.vllm.guide import Guide, guided, settings

SMALL, LARGE = "UNDERSTUDY_VLLM_SMALL", "UNDERSTUDY_VLLM_LARGE"
MOST_QUEUED = 24
"""Requests that the large server takes before it refuses, those it works on included."""
_HERE = Path(__file__).parent

Starter = Callable[..., Served]
"""(name of a model, further arguments of `vllm serve`, port=...) to a server that is starting: wait for it."""
Opener = Callable[..., Guide]
"""(top=further settings of the gateway, module=its command line, fields of the served model) to a Guide of a gateway with a
bank of its own."""

STILL: dict[str, Any] = {
    "policy": "in_context",
    "proof": "off",
    "few_shot": {"theta": 0.5, "m": 1, "same_names": True},
    "advanced": {
        "epsilon": 0,
        "key_share": 0,
        "scorer_deadline_ms": 10_000,
    },
}
"""The learning policy with nothing left to chance: its rule decides, the prior scorer chooses the examples."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder need vLLM, and patience: the first of them waits for the servers."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.vllm)
            item.add_marker(pytest.mark.timeout(1200))


@pytest.fixture(scope="session")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    """Starts vLLM on one of the tiny models; whatever was started is stopped in the end."""
    environment, models = vllm_environment.folder(), building.folder()
    if os.environ.get(SMALL) or os.environ.get(LARGE):
        pytest.skip(f"servers are given by {SMALL} and {LARGE}: none is started or killed here")
    if not vllm_environment.is_installed(environment):
        pytest.skip(f"vLLM is not installed in {environment}: run `make test-vllm`")
    missing = [name for name in building.NAMES if not building.is_built(models, name)]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} in {models}: run `make test-vllm`")
    folder = tmp_path_factory.mktemp("vllm")
    started: list[Served] = []

    def start(name: str, *arguments: str, port: int = 0) -> Served:
        port = port or vllm_serving.free_port()
        server = vllm_serving.start(
            environment,
            models / name,
            name,
            folder,
            *(*held.ARGUMENTS, *arguments),
            port=port,
            variables=held.variables(held.file_of(folder, port)),
        )
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest) -> tuple[Served, Served]:
    """(small, large), serving."""
    small, large = os.environ.get(SMALL), os.environ.get(LARGE)
    if small and large:
        return vllm_serving.remote(small), vllm_serving.remote(large)
    start: Starter = request.getfixturevalue("start_server")
    both = start("understudy"), start("lead", "--max-num-queued-reqs", str(MOST_QUEUED))
    vllm_serving.wait(*both)
    return both


@pytest.fixture(scope="session")
def small(servers: tuple[Served, Served]) -> Served:
    """The understudy's server: knows a quarter of the facts, copies from its context."""
    return servers[0]


@pytest.fixture(scope="session")
def large(servers: tuple[Served, Served]) -> Served:
    """The lead's server: knows every fact."""
    return servers[1]


@pytest.fixture(scope="session")
def twin(start_server: Starter) -> Served:
    """Another server of the understudy: a replica of `small`."""
    served = start_server("understudy")
    vllm_serving.wait(served)
    return served


@pytest.fixture
def open_guide(small: Served, large: Served, tmp_path: Path) -> Iterator[Opener]:
    """Starts real gateways in front of both servers; all are stopped in the end."""
    with ExitStack() as stack:
        opened: list[Guide] = []

        def open_(top: dict[str, Any] | None = None, module: str = "understudy", **model: Any) -> Guide:
            folder = tmp_path / f"gateway{len(opened)}"
            folder.mkdir()
            config = settings(folder / "data", small, large, **model) | (top or {})
            opened.append(stack.enter_context(guided(folder, config, module)))
            return opened[-1]

        yield open_


@pytest.fixture
def guide(open_guide: Opener) -> Guide:
    """A gateway with an empty bank that retrieves, scores, and routes by rule."""
    return open_guide(**STILL)
