"""A wrong example in the bank misleads the small model; replay finds it, asks the large model, and mends it. And back.

Both models are real and so is all between them. The judge is not: no tiny model can compare answers, so a server in this
test reads the judge's prompts and knows the world.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.tiny_models.world import Fact
from benchmarks.vllm.serving import Served
from router.digest import NO_INSTRUCTIONS, scope_of
from store import Store
from store.people.secret import tenant_id
from store.records import NewExample
from tests.vllm.conftest import STILL
from tests.vllm.guide import WORLD, guided, settings, until

ROOT = Path(__file__).parents[2]
KEY = "sk-traveller"


class _Judge(BaseHTTPRequestHandler):
    """The right answer is much better than any other; two of a kind are equal."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        code = re.search(r"SCORE ([0-9a-f]{16}): n", body["messages"][0]["content"])
        assert code is not None
        shown = body["messages"][1]["content"]
        parts = {
            name: re.split(rf"^<<<(?:END )?{name} {code[1]}>>>$", shown, flags=re.MULTILINE)[1].strip()
            for name in ("REQUEST", "FIRST ANSWER", "SECOND ANSWER")
        }
        fact = next(f for f in WORLD.facts if f.town in parts["REQUEST"])
        first, second = (parts[f"{name} ANSWER"] == fact.answer for name in ("FIRST", "SECOND"))
        message = {"role": "assistant", "content": f"By the map.\nSCORE {code[1]}: {3 * (first - second)}"}
        answer = {
            "id": "judge-1",
            "object": "chat.completion",
            "created": 0,
            "model": "judge",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 8, "total_tokens": 108},
        }
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing."""


@contextmanager
def judging() -> Iterator[str]:
    """The judge's base URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Judge) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


def told(*words: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "understudy", "replay", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def remembered(data: Path, fact: Fact, answer: str, phrasing: int) -> None:
    """A pair as the large model's answers are remembered, written beside the running gateway."""
    store = Store.open(data)
    try:
        asked = fact.question(phrasing)
        store.examples.add(
            NewExample(
                tenant=tenant_id(store.secret, KEY),
                scope=scope_of(NO_INSTRUCTIONS),
                question=asked,
                answer=answer,
                embedded_text=asked,
                vector=None,
                embedding_version="",
                source_engine="import",
                request_id=f"old-{fact.town}",
            )
        ).result()
    finally:
        store.close()


def test_a_wrong_example_is_found_replayed_and_mended(small: Served, large: Served, tmp_path: Path) -> None:
    data = tmp_path / "data"
    # Towns of different families, so that none is taken for another; the last answer is another town's.
    towns = WORLD.facts[::20][:6]
    wrong, other = towns[-1], towns[0]
    lie = wrong.answer.replace(f"{wrong.verb} {wrong.noun}", f"{other.verb} {other.noun}")
    with judging() as url:
        config = settings(data, small, large, **STILL)
        config["engines"]["judge"] = {
            "base_url": url,
            "model": "judge",
            "price": {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 4.0},
        }
        config["replay"] = {"judge": "judge", "advanced": {"max_tokens": 24}}
        with guided(tmp_path, config) as guide:
            for fact in towns[:-1]:
                remembered(data, fact, fact.answer, 0)
            remembered(data, wrong, lie, 0)
            asked = wrong.question(1)
            until(lambda: guide.ask(asked, fresh=True).examples > 0, "the example is retrieved")
            misled = guide.ask(asked, again=True)
            assert (misled.engine, misled.text) == ("small", lie)
            guide.score(misled, 0.0)
            for fact in towns[:-1]:
                said = guide.ask(fact.question(1), again=True)
                guide.score(said, float(said.text == fact.answer))

            file = str(tmp_path / "config.yaml")

            def planned() -> list[dict[str, Any]]:
                lines: list[dict[str, Any]] = json.loads(told("--config", file, "--plan", "--json"))["lines"]
                return lines

            # Uses and gains are written every ten seconds.
            until(lambda: len(planned()) >= 1, "something to replay")
            run = json.loads(told("--config", file, "--budget-usd", "0.05", "--json").splitlines()[-1])
            assert run["state"] == "done"
            assert run["results"].get("replaced") == 1
            assert 0 < run["spent"]["usd"] <= 0.05
            mended = guide.ask(asked, fresh=True)
            assert (mended.engine, mended.text) == ("small", wrong.answer)
            assert "1 answers restored" in told("undo", "--data", str(data), str(run["run"]))
            assert [each["answer"] for each in guide.bank() if wrong.town in each["question"]] == [lie]
