"""One port is one gateway's: another joins it only with the same data folder, to take over."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.flow.client import once
from tests.flow.process import Gateway, ran, running, started
from tests.flow.upstream import Upstream

pytestmark = pytest.mark.slow


def again(gateway: Gateway, upstream: Upstream, *options: str) -> tuple[str, ...]:
    """The arguments of another gateway on the same port."""
    return ("serve", "--port", str(gateway.port), "--upstream", upstream.url, *options)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), marks=pytest.mark.slow),
        pytest.param(("--workers", "2"), marks=pytest.mark.slow),
        pytest.param(("--data", "OTHER"), marks=pytest.mark.slow),
        ("--data", "OTHER", "--workers", "2"),
    ],
)
def test_a_gateway_with_another_data_folder_is_refused(
    upstream: Upstream, tmp_path: Path, options: tuple[str, ...]
) -> None:
    options = tuple(str(tmp_path / "other") if option == "OTHER" else option for option in options)
    first = ("--data", str(tmp_path / "first"), "--admin", "on", "--workers", "2", "--grace", "1")
    with running("--upstream", upstream.url, *first, workers=2) as gateway:
        status, _, said = ran(*again(gateway, upstream, *options))
        assert status == 2 and f"cannot listen on 127.0.0.1:{gateway.port}" in said and "in use" in said
        if "--data" in options:
            assert "same memory.data_dir" in said
        assert once(gateway.port, "GET", "/v1/models").status == 200


def test_workers_that_remember_nothing_share_their_port_with_nobody(upstream: Upstream) -> None:
    with running("--upstream", upstream.url, "--workers", "2", "--grace", "1", workers=2) as gateway:
        status, _, said = ran(*again(gateway, upstream, "--workers", "2"))
        assert status == 2 and "in use" in said


@pytest.mark.slow
def test_a_rolling_restart_of_the_same_data_folder_refuses_and_breaks_nothing(
    upstream: Upstream, tmp_path: Path
) -> None:
    """The new process first, then the old one stops: a stream of the old one ends as it should."""
    data = ("--data", str(tmp_path / "data"))
    with running("--upstream", upstream.url, *data, "--workers", "2", workers=2) as old:
        new = again(old, upstream, *data, "--workers", "2", "--admin", "off")
        with started(*new) as process:
            process.wait_for_event("listening", 2)
            assert old.stop() == 0
            for _ in range(20):
                assert once(old.port, "GET", "/v1/models").status == 200
            # And so on: the second is followed like the first.
            with started(*new) as third:
                third.wait_for_event("listening", 2)
                assert process.stop() == 0
                assert once(old.port, "GET", "/v1/models").status == 200


@pytest.mark.slow
def test_a_gateway_that_was_killed_is_started_again_at_once(upstream: Upstream, tmp_path: Path) -> None:
    """Its workers finish what they answer, and listen until then."""
    data = ("--data", str(tmp_path / "data"), "--workers", "2", "--admin", "off")

    with running("--upstream", upstream.url, *data, workers=2) as gateway:
        os.kill(gateway.process.pid, signal.SIGKILL)
        with started(*again(gateway, upstream, *data)) as process:
            process.wait_for_event("listening", 2)
            assert once(gateway.port, "GET", "/v1/models").status == 200
