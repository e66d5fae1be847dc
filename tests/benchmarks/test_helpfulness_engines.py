"""Engines are asked what is compared, each prompt once; the oracle is what asking shows. With servers that copy by rule."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchmarks.helpfulness import engines
from benchmarks.tiny_models.world import World

WORLD = World()


class Copies(BaseHTTPRequestHandler):
    """Knows every fact, or else only says again what an earlier turn says of the same town, or the last turn's answer."""

    protocol_version = "HTTP/1.1"
    # Head and body are two writes: the second would wait for the first to be acknowledged.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._send({"data": [{"id": self.server.model}]})  # type: ignore[attr-defined]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        *earlier, last = body["messages"]
        fact = WORLD.by_question[last["content"]]
        self.server.asked[json.dumps(body["messages"])] += 1  # type: ignore[attr-defined]
        said = [m["content"] for m in earlier if m["role"] == "assistant"]
        answer = next((s for s in said if fact.town in s), said[-1] if said else "I do not know.")
        if self.server.model == "large":  # type: ignore[attr-defined]
            answer = fact.answer
        self._send({"choices": [{"message": {"content": answer}}]})

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _send(self, body: Any) -> None:
        sent = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)


class Server(ThreadingHTTPServer):
    # An engine is asked many things at once; where five may wait to be taken, each of the others tries again a second later.
    request_queue_size = 128


@pytest.fixture
def servers() -> Iterator[dict[str, Any]]:
    running = {}
    for model in ("small", "large"):
        server = Server(("127.0.0.1", 0), Copies)
        server.model, server.asked = model, Counter[str]()  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        running[model] = server
    yield running
    for server in running.values():
        server.shutdown()
        server.server_close()


def url(server: Any) -> str:
    return f"http://127.0.0.1:{server.server_port}/v1"


@pytest.mark.slow
def test_a_run_trains_on_what_was_graded_and_compares_on_towns_it_never_saw(
    servers: dict[str, Any], tmp_path: Path
) -> None:
    said: list[str] = []
    found = engines.run(
        url(servers["small"]),
        url(servers["large"]),
        requests=180,
        seed=3,
        cache=tmp_path,
        tell=said.append,
    )
    scorers = {"prior", "outcomes alone", "trained"}
    assert found["training"]["trained"]["rows"] > 200
    assert found["training"]["outcomes alone"]["lessons"] == 0 < found["training"]["trained"]["lessons"]
    assert scorers | {"oracle"} <= set(found["later"]["ways"])
    assert set(found["correlation_with_true_gain"]) == {"similarity", *scorers}
    assert any("| trained " in line for line in said)


def test_without_engines_it_says_so_and_ends_well(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["engines"])
    engines.main()
    assert "no engines given" in capsys.readouterr().out
