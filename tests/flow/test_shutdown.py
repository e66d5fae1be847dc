"""Stopping has an order: refuse new work, finish what streams within the grace period, close, exit 0."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.flow.client import Client, once
from tests.flow.kinds import both, listen
from tests.flow.process import START_S, Gateway, ran, running, started
from tests.flow.upstream import Call, Upstream, begins_and_waits
from tests.patience import PATIENCE_S

CHAT = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}'


@pytest.fixture
def own(request: pytest.FixtureRequest, upstream: Upstream, tmp_path: Path) -> Iterator[Gateway]:
    """A gateway of this test's own, with more grace than any test waits: nothing here ends because that is over."""
    config = listen(request, grace_s=5 * PATIENCE_S)
    (tmp_path / "own.yaml").write_text(f"upstream: {{base_url: {upstream.url}}}\n{config}")
    with running("--config", str(tmp_path / "own.yaml")) as process:
        yield process


@pytest.fixture
def hasty(request: pytest.FixtureRequest, upstream: Upstream, tmp_path: Path) -> Iterator[Gateway]:
    """The same with a third of a second."""
    config = listen(request, grace_s=0.3)
    (tmp_path / "hasty.yaml").write_text(f"upstream: {{base_url: {upstream.url}}}\n{config}")
    with running("--config", str(tmp_path / "hasty.yaml")) as process:
        yield process


def streaming(client: Client) -> None:
    client.ask("POST", "/v1/chat/completions", CHAT)
    assert client.read_head().status == 200
    client.read_until(b"data: 1\n\n\r\n")


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.slow
@both("own")
def test_an_idle_gateway_ends_at_once_with_status_0(own: Gateway) -> None:
    with Client(own.port) as idle:
        idle.ask("GET", "/healthz")
        idle.read()
        assert own.stop() == 0
        assert idle.hung_up()
    assert "stopped" in {line["event"] for line in own.log_lines()}


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@both("own")
def test_an_open_stream_finishes_and_new_connections_are_refused(
    own: Gateway, upstream: Upstream, signum: signal.Signals
) -> None:
    stopping = Event()

    def script(call: Call) -> None:
        call.begin()
        call.chunk(b"data: 1\n\n")
        assert stopping.wait(PATIENCE_S)
        for _ in range(5):
            call.chunk(b"data: 2\n\n")
            time.sleep(0.05)
        call.chunk(b"data: [DONE]\n\n")
        call.end()

    upstream.plays(script)
    with Client(own.port) as client:
        streaming(client)
        own.process.send_signal(signum)
        own.wait_for_log('"event":"stopping"')
        own.wait_for(lambda: refuses(own.port), "new connections refused")
        stopping.set()
        rest = client.rest()
        assert rest.count(b"data: 2\n\n") == 5
        assert rest.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert own.ended() == 0


@pytest.mark.slow
@both("own")
def test_a_waiting_request_is_still_answered(own: Gateway, upstream: Upstream) -> None:
    stopping = Event()

    def script(call: Call) -> None:
        assert stopping.wait(PATIENCE_S)
        call.answer(b"late")

    upstream.plays(script)
    with Client(own.port) as client:
        client.ask("POST", "/v1/embeddings", b"{}")
        upstream.call()
        own.process.send_signal(signal.SIGTERM)
        own.wait_for_log('"event":"stopping"')
        stopping.set()
        assert client.read().body == b"late"
        assert client.hung_up()
    assert own.ended() == 0


@pytest.mark.slow
@both("hasty")
def test_a_stream_beyond_the_grace_period_is_cut_and_never_looks_whole(
    hasty: Gateway, upstream: Upstream
) -> None:
    upstream.plays(begins_and_waits)
    with Client(hasty.port) as client:
        streaming(client)
        hasty.process.send_signal(signal.SIGTERM)
        assert not client.rest().endswith(b"0\r\n\r\n")
    assert hasty.ended() == 0
    assert upstream.call().was_left()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"),
    [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGINT)],
)
def test_a_second_signal_ends_it_at_once(
    own: Gateway, upstream: Upstream, first: signal.Signals, second: signal.Signals
) -> None:
    upstream.plays(begins_and_waits)
    with Client(own.port) as client:
        streaming(client)
        own.process.send_signal(first)
        own.wait_for_log('"event":"stopping"')
        own.process.send_signal(second)
        assert own.ended() == -second
        assert "Traceback" not in own.log()


@pytest.mark.slow
def test_a_port_in_use_is_named_and_exits_2(own: Gateway, upstream: Upstream) -> None:
    status, _, said = ran("serve", "--upstream", upstream.url, "--port", str(own.port))
    assert status == 2
    assert said.strip() == f"understudy: cannot listen on 127.0.0.1:{own.port}: Address already in use"


@pytest.mark.slow
def test_a_port_is_free_again_at_once(upstream: Upstream) -> None:
    """Connections in TIME_WAIT must not keep a restarted gateway from its port."""
    with running("--upstream", upstream.url) as first:
        port = first.port
        with Client(port) as client:
            client.ask("GET", "/healthz", headers=[("Connection", "close")])
            client.read()
            assert client.hung_up()
        assert first.stop() == 0
    with running("--upstream", upstream.url, "--port", str(port)) as second:
        assert once(port, "GET", "/healthz").status == 200
        assert second.port == port


@pytest.mark.slow
@both("own")
def test_an_upload_under_way_finishes(own: Gateway, upstream: Upstream) -> None:
    with Client(own.port) as client:
        client.send(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\n\r\nx")
        upstream.call()
        own.process.send_signal(signal.SIGTERM)
        own.wait_for_log('"event":"stopping"')
        time.sleep(0.1)
        sender = Thread(target=client.send, args=(b"x" * 399_999,))
        sender.start()
        answer = client.read()
        sender.join()
        assert answer.status == 200 and answer.body == b"x" * 400_000
    assert own.ended() == 0


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_gateway_that_is_still_being_built_stops_at_once(
    signum: signal.Signals, workers: str, tmp_path: Path
) -> None:
    """With nothing of it left: what it remembered in was a temporary folder."""
    options = ("--port", "0", "--upstream", "http://127.0.0.1:9/v1", "--exact", "on", "--workers", workers)
    environment = {"TMPDIR": str(tmp_path)}
    with started("serve", *options, module="tests.flow.slow_to_build", environment=environment) as process:
        process.wait_for_event("building", int(workers), START_S)
        assert list(tmp_path.iterdir())
        process.process.send_signal(signum)
        assert process.ended() == 0
    # Where orders come in is this user's for all gateways, and empty.
    assert not [path for path in tmp_path.rglob("*") if not path.name.startswith("understudy-control-")]
