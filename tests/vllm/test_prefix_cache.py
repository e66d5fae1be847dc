"""Examples in a stable order let the engine reuse what it computed of them before."""

from __future__ import annotations

import copy
import json
from pathlib import Path

from store import Store
from tests.store.behind import database
from tests.vllm.conftest import STILL, Opener
from tests.vllm.guide import Guide, until

EVERY = "tests.vllm.taking_every_example"
SUBJECTS = ("bread", "boats", "bells", "wool", "cheese")
QUESTION = "Tell me all about the {} of Quorvikaholm, and how the guild of Quorvikaholm came to make {}."


def test_a_stable_order_of_examples_raises_the_tokens_found_in_the_prefix_cache(open_guide: Opener) -> None:
    cached, asked = {}, {}
    for order in ("stable", "helpful_last"):
        model = copy.deepcopy(STILL)
        # Each example is taken that helps at all: it is their order that matters here.
        model["advanced"] |= {"example_order": order}
        guide = open_guide(module=EVERY, **model)
        for number, subject in enumerate(SUBJECTS):
            answer = f"The guild of Quorvikaholm has made {subject} for {number + 2} hundred years. " * 3
            guide.teach(QUESTION.format(subject, subject), answer.strip())
        cached[order], asked[order] = _cached(guide)
    assert asked["stable"] == asked["helpful_last"] >= 15, "the same examples, in another order"
    print("prompt tokens found in the cache:", cached)
    assert cached["stable"] > 1.5 * cached["helpful_last"]


def _cached(guide: Guide) -> tuple[int, int]:
    """Tokens cached and examples sent, over questions that all of them help with, each with a favourite."""
    cached = examples = 0
    for subject in SUBJECTS:
        said = guide.ask(QUESTION.format(subject, "them"), fresh=True, engine="small")
        assert said.status == 200, said.body
        cached += said.cached_tokens
        examples += said.examples
    return cached, examples


def test_two_tenants_share_no_prefix(open_guide: Opener) -> None:
    guide = open_guide(policy="fixed", engines=["large"])
    stranger = Guide(guide.gateway, key="sk-stranger")
    question = "What is the old town of Quorvikaholm famous for? " * 8
    assert guide.ask(question, fresh=True).cached_tokens == 0
    assert guide.ask(question, fresh=True).cached_tokens > 0
    assert stranger.ask(question, fresh=True).cached_tokens == 0


def test_what_the_engine_found_in_its_cache_is_told_counted_logged_and_kept(
    open_guide: Opener, tmp_path: Path
) -> None:
    guide = open_guide(policy="fixed", engines=["large"])
    question = "What is the new town of Quorvikaholm famous for? " * 8
    assert guide.ask(question, again=True).cached_tokens == 0
    whole = guide.ask(question, again=True)
    with guide.streaming(question + "?", stream_options={"include_usage": True}) as stream:
        last = [json.loads(line) for line in stream.lines() if line != "[DONE]"][-1]
    streamed = last["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert whole.cached_tokens >= 64 and streamed >= 64
    both = [whole.cached_tokens, streamed]

    counted = f'understudy_cached_tokens_total{{engine="large"}} {sum(both)}.0'
    until(lambda: counted in guide.figures(), "it counted")

    def logged() -> list[int]:
        return [line["cached_tokens"] for line in guide.gateway.log_lines() if "cached_tokens" in line]

    until(lambda: logged() == both, "a line for each in the log")
    store = Store.open(tmp_path / "gateway0" / "data")
    kept = "SELECT cached_tokens FROM requests ORDER BY started_at_s"
    try:
        until(lambda: [row[0] for row in database(store).read().execute(kept)] == [0, *both], "it kept")
    finally:
        store.close()
