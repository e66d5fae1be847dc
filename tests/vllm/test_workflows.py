"""Workflows on two real servers that are replicas of one engine: what is computed early is found in their prefix caches."""

from __future__ import annotations

from typing import Any

from benchmarks.vllm.serving import Served
from tests.vllm.conftest import Opener
from tests.vllm.guide import MODEL, WORLD, pooled

FACTS = WORLD.remembered(0.25)
PREFIX_WORDS = 420
"""A word is a token of these models."""
BLOCK_TOKENS = 32
LONG = {"max_tokens": 160, "temperature": 0, "params": {"ignore_eos": True}}


def told(words: int) -> str:
    """So many words that these models know."""
    asked = " ".join(fact.question(0) for fact in FACTS).split()
    return " ".join((asked * (1 + words // len(asked)))[:words])


def configured(small: Served, twin: Served) -> dict[str, Any]:
    one = {
        "inputs": {"question": "last_user", "told": "text"},
        "steps": {
            "draft": {"chat": "{{question}}", "model": MODEL, **LONG},
            "answer": {
                "chat": "{{told}} {{draft}} {{question}}",
                "model": MODEL,
                "max_tokens": 24,
                "temperature": 0,
            },
        },
        "output": "answer",
    }
    return pooled(small, twin) | {"workflows": {"early": one, "late": one | {"passes": []}}}


def test_nine_tenths_of_a_prefix_that_was_computed_early_are_found_in_the_cache(
    small: Served, twin: Served, open_guide: Opener
) -> None:
    guide = open_guide(top=configured(small, twin))
    shares, said = [], {}
    for place in range(3):
        asked = f"{FACTS[place].question(0)} {told(PREFIX_WORDS)}"
        more = {"understudy": {"inputs": {"told": asked}}}
        question = FACTS[place].question(1)
        early = guide.ask(question, fresh=True, model="early", **more)
        assert early.status == 200, early.body
        run = guide.send("GET", f"/runs/{early.headers['x-understudy-run']}").json
        (step,) = (each for each in run["steps"] if each["id"] == "answer")
        shares.append((step["warmed_tokens"], step["usage"]["cached_tokens"]))
        said[question] = early.text
    print("warmed and cached tokens:", shares)
    assert all(warmed >= 256 and cached >= 0.9 * PREFIX_WORDS for warmed, cached in shares)
    for place, (question, text) in enumerate(said.items()):
        asked = f"{FACTS[place].question(0)} {told(PREFIX_WORDS)}"
        more = {"understudy": {"inputs": {"told": asked}}}
        assert guide.ask(question, fresh=True, model="late", **more).text == text
