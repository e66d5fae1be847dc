"""Two real servers as replicas of one engine: one is killed under streams, and later turns find their prefix cached."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from benchmarks.vllm import serving as vllm_serving
from benchmarks.vllm.serving import Served
from tests.vllm import held
from tests.vllm.conftest import Opener, Starter
from tests.vllm.guide import WORLD, Guide, pooled, until

LONG: dict[str, Any] = {
    "max_tokens": 200,
    # Never the end of its turn, nor of anything: it goes on saying words.
    "logit_bias": {"0": -100, "1": -100, "2": -100},
}
STREAMS, CONVERSATIONS, TURNS = 20, 8, 4


def test_one_is_killed_under_twenty_streams_and_all_of_them_complete(
    start_server: Starter, small: Served, open_guide: Opener
) -> None:
    mortal = start_server("understudy")
    vllm_serving.wait(mortal)
    guide = open_guide(top=pooled(mortal, small))
    with ExitStack() as stack, ThreadPoolExecutor(STREAMS) as threads:
        for served in (mortal, small):
            stack.enter_context(held.slowed(served))
        streams = [threads.submit(streamed, guide, WORLD.facts[n].question(0)) for n in range(STREAMS)]
        until(lambda: mortal.running() >= STREAMS // 4, "a good part of them at the one that is killed")
        time.sleep(1.0)
        mortal.kill()
        ended = [stream.result() for stream in streams]
    for lines in ended:
        chunks = [json.loads(line) for line in lines if line != "[DONE]"]
        assert lines.count("[DONE]") == 1 and lines[-1] == "[DONE]"
        assert not any("error" in chunk for chunk in chunks), chunks[-1]
        finished = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]]
        assert [reason for reason in finished if reason] == ["length"]
    assert "understudy_failed_over_total{" not in guide.figures(), "the same engine answered all of them"
    assert guide.ask(WORLD.facts[0].question(0), fresh=True).engine == "pool"


def test_later_turns_find_what_was_computed_before(twin: Served, small: Served, open_guide: Opener) -> None:
    guide = open_guide(top=pooled(twin, small))
    with ThreadPoolExecutor(CONVERSATIONS) as threads:
        found = [
            turn
            for turns in threads.map(lambda n: conversation(guide, n), range(CONVERSATIONS))
            for turn in turns
        ]
    print("cached tokens of later turns:", found)
    # At most one in fifty gave way to load.
    assert sum(cached > 0 for cached in found) >= 0.98 * len(found)
    assert all(served.figures()["vllm:request_success_total"] > 0 for served in (twin, small))


def streamed(guide: Guide, question: str) -> list[str]:
    """All events of a long answer."""
    with guide.streaming(question, **LONG) as stream:
        return list(stream.lines())


def conversation(guide: Guide, number: int) -> list[int]:
    """Cached tokens of each turn but the first; each of which is longer than a block of the cache."""
    town = f"This is conversation {number} about the towns of Quorvikaholm. " * 4
    messages = [{"role": "user", "content": town + WORLD.facts[number].question(0)}]
    cached = []
    for turn in range(TURNS):
        said = guide.ask(messages, fresh=True)
        if turn:
            cached.append(said.cached_tokens)
        question = WORLD.facts[number + turn + 1].question(0)
        messages = [
            *messages,
            {"role": "assistant", "content": said.text},
            {"role": "user", "content": question},
        ]
    return cached
