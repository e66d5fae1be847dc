"""An answer whose real engine is killed in the middle is carried on by another real engine, as one well-formed stream."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from benchmarks.vllm import serving as vllm_serving
from benchmarks.vllm.serving import Served
from tests.vllm import held
from tests.vllm.conftest import Opener, Starter
from tests.vllm.guide import WORLD, Stream, until

LONG: dict[str, Any] = {
    "max_tokens": 900,
    "stream_options": {"include_usage": True},
    # Never the end of its turn, nor of anything: it goes on saying words.
    "logit_bias": {"0": -100, "1": -100, "2": -100},
}
FACT = WORLD.facts[0]


def all_of(served: Served) -> Callable[[], None]:
    """Kills every process at once: the connection breaks."""
    return served.kill


def what_computes(served: Served) -> Callable[[], None]:
    """Kills the process that computes: the server says so in the stream, and ends seconds later."""
    return partial(os.kill, held.worker_of(served), signal.SIGKILL)


@pytest.mark.parametrize("killer", [all_of, what_computes])
def test_one_answer_by_two_engines_of_one_model_is_the_answer_of_one(
    start_server: Starter, small: Served, open_guide: Opener, killer: Callable[[Served], Callable[[], None]]
) -> None:
    mortal = start_server("understudy")
    vllm_serving.wait(mortal)
    engines = {
        name: {
            "kind": "vllm",
            "api_key": "none",
            "base_url": served.url,
            "model": served.model,
            "advanced": {"poll_s": 0.2},
        }
        for name, served in (("mortal", mortal), ("small", small))
    }
    # The last is the reference, and is asked first.
    models = {"town-guide": {"engines": ["small", "mortal"], "policy": "fixed"}}
    guide = open_guide(top={"engines": engines, "models": models})
    assert guide.ask(FACT.question(0), fresh=True).engine == "mortal"
    kill = killer(mortal)
    with held.slowed(mortal), guide.streaming(FACT.question(0), **LONG) as stream:
        first = stream.headers["x-understudy-engine"]
        told, lines = _until_some_said(stream)
        kill()
        lines += list(stream.lines())
    chunks = [json.loads(line) for line in lines if line != "[DONE]"]
    assert first == "mortal" and told
    assert lines.count("[DONE]") == 1 and lines[-1] == "[DONE]" and not any("error" in c for c in chunks)
    assert len({chunk["id"] for chunk in chunks}) == 1
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert [c["delta"]["role"] for c in choices if c["delta"].get("role")] == ["assistant"]
    assert [c["finish_reason"] for c in choices if c["finish_reason"]] == ["length"]
    usage = chunks[-1]["usage"]
    assert usage["completion_tokens"] == LONG["max_tokens"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]

    alone = guide.ask(FACT.question(0), fresh=True, engine="small", **(LONG | {"stream_options": None}))
    said = "".join(choice["delta"].get("content") or "" for choice in choices)
    assert said.split()[:40] == alone.text.split()[:40]
    assert usage["prompt_tokens"] == alone.json["usage"]["prompt_tokens"]
    guide.gateway.wait_for_log('"continued":["small"]')
    told = next(line for line in guide.gateway.log_lines() if "continued" in line)
    assert (told["engine"], told["outcome"]) == ("mortal", "answered")
    counted = 'understudy_continued_total{by="small",engine="mortal"} 1.0'
    until(lambda: counted in guide.figures(), "it counted", timeout_s=10)


def _until_some_said(stream: Stream) -> tuple[int, list[str]]:
    """(pieces said, lines so far) once there is something to go on from."""
    lines: list[str] = []
    said = 0
    for line in stream.lines():
        lines.append(line)
        chunk = json.loads(line)  # "[DONE]" would mean that it ended before it could be killed
        said += any(choice["delta"].get("content") for choice in chunk["choices"])
        if said >= 3:
            break
    return said, lines
