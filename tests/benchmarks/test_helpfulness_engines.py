"""Engines are asked what is compared, each prompt once; the oracle is what asking shows. With servers that copy by rule."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
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


def embed(text: str) -> np.ndarray:
    """By letters in threes: towns of a family are alike, and so are phrasings."""
    vector = np.zeros(64, np.float32)
    for i in range(len(text) - 2):
        vector[sum(map(ord, text[i : i + 3])) % 64] += 1
    return vector / max(1e-6, float(np.linalg.norm(vector)))


@pytest.fixture
def town(servers: dict[str, Any]) -> Any:
    engine = engines.Engine
    return engines.Town(engine(url(servers["small"])), engine(url(servers["large"])), embed, 3)


def test_the_large_engines_answers_are_the_bank_and_questions_come_in_other_words(town: Any) -> None:
    assert town.large_right == 1.0
    for asked in town.requests(20, learnt=False):
        assert len(asked.near) == engines.CANDIDATES
        assert asked.question not in [c.example.question for c in asked.near]
    learnt = {a.fact for a in town.requests(200, learnt=True)}
    assert not learnt & {a.fact for a in town.requests(200, learnt=False)}
    for asked in town.requests(20, learnt=False, relevant=False):
        assert asked.fact.answer not in [c.example.answer for c in asked.near]


def test_the_oracle_sends_what_makes_the_answer_right_and_nothing_where_nothing_does(town: Any) -> None:
    requests = town.requests(12, learnt=True) + town.requests(3, learnt=True, relevant=False)
    for asked, sent in zip(requests, engines.oracle(town, requests), strict=True):
        there = [c for c in asked.near if c.example.answer == asked.fact.answer]
        assert sent == there[:1]
        assert town.quality(asked, sent) == bool(there)


def test_every_way_is_asked_and_no_prompt_twice(town: Any, servers: dict[str, Any]) -> None:
    requests = town.requests(8, learnt=True)
    figures = engines.compared(town, requests, {}, with_oracle=True)["ways"]
    assert set(figures) == {"none", "random 5", "nearest 1", "nearest 3", "nearest 5", "oracle"}
    assert figures["none"] == {"quality": 0.0, "examples": 0.0, "tokens": 0.0}
    assert figures["oracle"]["quality"] >= figures["nearest 5"]["quality"]
    assert set(servers["small"].asked.values()) == {1}


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
