"""Whole requests over real sockets: a scripted upstream, the real gateway as a process, a client that sends raw bytes.

The processes are shared by all tests of a run; each test gets an upstream that has forgotten the one before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.in_flight import Flight
from tests.flow.kinds import listen
from tests.flow.process import Gateway, running
from tests.flow.upstream import Upstream


@pytest.fixture(scope="session")
def _upstream() -> Iterator[Upstream]:
    upstream = Upstream()
    upstream.shared = True
    yield upstream
    upstream.close()


@pytest.fixture
def upstream(_upstream: Upstream) -> Iterator[Upstream]:
    """What answers behind the gateway; it echoes bodies until a test gives it a script."""
    _upstream.forget()
    yield _upstream
    _upstream.forget()


@pytest.fixture(scope="session")
def gateway(
    request: pytest.FixtureRequest, _upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """A pass-through gateway with the defaults a user gets, and the kind of connection that its test asks for."""
    path: Path = tmp_path_factory.mktemp("gateway") / "config.yaml"
    path.write_text(f"upstream: {{base_url: {_upstream.url}}}\n{listen(request)}")
    with running("--config", str(path)) as process:
        yield process


@pytest.fixture(scope="session")
def impatient(_upstream: Upstream) -> Iterator[Gateway]:
    """The same with a second and a half for each phase of the upstream's answer: what is to stay within that must do so on a
    machine that stalls for a moment.
    """
    with running("--upstream", _upstream.url, "--upstream-timeout", "1.5", "--grace", "1") as process:
        yield process


@pytest.fixture(scope="session")
def small(
    request: pytest.FixtureRequest, _upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """A gateway with small limits: 64 KiB bodies, 16 KiB of JSON, 4 KiB headers."""
    path: Path = tmp_path_factory.mktemp("small") / "config.yaml"
    sizes = {"max_body_mib": 0.0625, "max_json_mib": 0.015625}
    path.write_text(f"upstream: {{base_url: {_upstream.url}}}\n{listen(request, advanced=sizes)}")
    with running("--config", str(path)) as process:
        yield process


@pytest.fixture(scope="session")
def serving(_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that serves the model `m`, and reads bodies for it."""
    path = tmp_path_factory.mktemp("serving") / "config.yaml"
    path.write_text(
        f"listen: {{grace_s: 1}}\nupstream: {{base_url: {_upstream.url}}}\n"
        f"engines: {{e: {{base_url: {_upstream.url}, api_key: none}}}}\nmodels: {{m: {{engines: [e]}}}}\n"
    )
    with running("--config", str(path)) as process:
        yield process


@pytest.fixture(scope="session")
def with_data(_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A pass-through gateway with a data folder: exact repeats come from memory."""
    data = tmp_path_factory.mktemp("with-data") / "data"
    with running(
        "--upstream", _upstream.url, "--data", str(data), "--grace", "1", "--admin", "off"
    ) as process:
        yield process


@pytest.fixture
def noticed(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once the gateway has seen that a leader's client left."""
    event, left = asyncio.Event(), Flight.goes_on

    def noting(self: Flight) -> bool:
        event.set()
        return left(self)

    monkeypatch.setattr(Flight, "goes_on", noting)
    return event
