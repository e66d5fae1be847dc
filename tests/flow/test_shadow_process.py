"""`serve --small --large` and nothing else: a small engine is compared in the background and answers nobody meanwhile."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from store import Store
from tests.flow.line import completion
from tests.flow.process import Gateway, running
from tests.flow.upstream import Call, Upstream

LABEL = "card_arrival"
TOKENS = 10
"""Of a request with its answer: see tests.flow.line.completion."""


@contextmanager
def two(data: Path, small_says: str) -> Iterator[tuple[Gateway, list[Call]]]:
    """The gateway as the command line makes it, and what its small engine is asked."""
    small, large, asked = Upstream(), Upstream(), []

    def by_small(call: Call) -> None:
        asked.append(call)
        call.answer(json.dumps(completion(small_says)).encode())

    small.plays(by_small)
    large.plays(lambda call: call.answer(json.dumps(completion(LABEL)).encode()))
    engines = ("--small", f"{small.url}=small", "--small-key", "none", "--large", f"{large.url}=gpt-4o")
    try:
        with running(*engines, "--data", str(data)) as gateway:
            yield gateway, asked
    finally:
        small.close()
        large.close()


def ask(gateway: Gateway, number: int) -> str | None:
    """Asks as a client does; returns the reason that the answer came with: none where an embedding was late."""
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": f"Where is card no. {number}?"}]}
    answer, headers = gateway.post("/chat/completions", body)
    assert json.loads(answer)["choices"][0]["message"]["content"] == LABEL
    assert headers["x-understudy-engine"] == "large"
    return headers["x-understudy-reason"]


@pytest.mark.slow
def test_the_small_engine_is_compared_without_and_with_examples_and_answers_nobody(tmp_path: Path) -> None:
    with two(tmp_path, f"{LABEL.title()}.") as (gateway, asked):
        number, reasons = 0, set()
        while not all(
            gateway.figure(f'understudy_judged_total{{engine="small",examples="{e}"') for e in WAYS
        ):
            reasons.add(ask(gateway, number))
            number += 1
            assert number < 200
        assert "shadow" in reasons
        assert "Authorization" not in {name.title() for call in asked for name, _ in call.headers}
        assert any(LABEL.encode() in call.body for call in asked)
        gateway.wait_for_event("judging_in_tokens")
    store = Store.open(tmp_path)
    try:
        found = [o for o in store.outcomes.after(0) if o.engine == "small"]
        assert {o.quality for o in found} == {1.0} and not any(o.served for o in found)
        assert {bool(o.example_ids) for o in found} == {True, False}
        assert all(store.decisions.choices.get(o.tenant, o.request_id) for o in found)
    finally:
        store.close()


WAYS = ("without", "with")


@pytest.mark.slow
def test_junk_costs_no_more_than_the_starting_allowance(tmp_path: Path) -> None:
    with two(tmp_path, "As a language model I cannot say where your card may be right now.") as (
        gateway,
        asked,
    ):
        for number in range(150):
            ask(gateway, number)
        gateway.wait_for(lambda: asked, "the small engine to be asked")
    store = Store.open(tmp_path)
    try:
        assert {o.quality for o in store.outcomes.after(0) if o.engine == "small"} == {0.0}
        spent = store.decisions.spending.spent("tokens", 0.0, time.time())
        assert 0 < spent <= 200 * TOKENS and len(asked) * TOKENS <= 200 * TOKENS
    finally:
        store.close()
