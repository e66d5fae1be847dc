"""Applications of several steps on two real servers that are replicas of one engine."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import chain
from typing import Any

from benchmarks.vllm import serving as vllm_serving
from benchmarks.vllm.serving import Served
from tests.vllm import held
from tests.vllm.conftest import Opener, Starter
from tests.vllm.guide import WORLD, Guide, pooled, until

FACTS = WORLD.remembered(0.25)
"""What the understudy knows by heart."""
TOWNS, RUNS, LONG_STEPS = 6, 4, 4
BLOCK_TOKENS = 32
"""Of the servers' prefix cache."""
LONG: dict[str, Any] = {"ignore_eos": True, "max_tokens": 400}

Messages = list[dict[str, str]]


def tour(first: int = 0) -> dict[str, Messages]:
    """An application's prompts by output, in an order in which they can be asked: towns are asked about side by side; each
    is then asked about in other words after all that was answered; and what was answered then is read by a last step.

    The only variables in them are outputs.
    """
    facts = FACTS[first : first + TOWNS]
    heard = [_pair(fact.question(0), f"heard{n}") for n, fact in enumerate(facts)]
    told = [_pair(fact.question(1), f"told{n}") for n, fact in enumerate(facts)]
    steps = {f"heard{n}": _ask(fact.question(0)) for n, fact in enumerate(facts)}
    steps |= {f"told{n}": [*chain(*heard), *_ask(fact.question(1))] for n, fact in enumerate(facts)}
    return steps | {"last": [*chain(*told), *_ask(facts[0].question(2))]}


def known(first: int = 0) -> dict[str, str]:
    """What the understudy has to answer."""
    answers = [fact.answer for fact in FACTS[first : first + TOWNS]]
    by_name = {f"{name}{n}": answer for name in ("heard", "told") for n, answer in enumerate(answers)}
    return by_name | {"last": answers[0]}


def test_a_run_says_what_a_client_that_orchestrates_is_told(
    small: Served, twin: Served, open_guide: Opener
) -> None:
    guide = open_guide(top=pooled(small, twin))
    run = ran(guide, tour())
    orchestrated: dict[str, str] = {}
    for name, messages in tour().items():
        orchestrated[name] = guide.ask(_filled(messages, orchestrated), fresh=True).text
    assert values(run) == orchestrated
    assert orchestrated == known()
    assert all(served.figures()["vllm:request_success_total"] > 0 for served in (small, twin))


def test_what_steps_share_of_computed_values_is_found_in_the_prefix_cache(
    small: Served, twin: Served, open_guide: Opener
) -> None:
    guide = open_guide(top=pooled(small, twin))
    run = ran(guide, tour(TOWNS))
    assert run["status"] == "done"
    cached = {step["name"]: step["usage"]["cached_tokens"] for step in run["steps"]}
    print("cached tokens of the steps:", cached)
    # Up to the first value they share less than a block: so what was found is computed values.
    before = len(tour(TOWNS)["told0"][0]["content"].split())
    assert before < BLOCK_TOKENS / 3
    found = [cached[f"told{n}"] for n in range(TOWNS)]
    # On each of the two, one of them is the first.
    assert sum(tokens >= 3 * BLOCK_TOKENS for tokens in found) >= TOWNS - 2


def test_a_cancelled_run_frees_the_engine_within_a_second(
    small: Served, twin: Served, open_guide: Opener
) -> None:
    guide = open_guide(top=pooled(small, twin))
    steps = {f"long{n}": _ask(FACTS[n].question(0)) for n in range(LONG_STEPS)}
    with ExitStack() as stack:
        for served in (small, twin):
            stack.enter_context(held.slowed(served))
        run = begun(guide, steps, **LONG)
        until(lambda: _running(small, twin) == LONG_STEPS, "all of them at work")
        generated = _generated(small, twin)
        began = time.monotonic()
        assert guide.send("POST", f"/runs/{run}/cancel").status == 200
        until(lambda: _running(small, twin) == 0, "the engine idle again")
        print(f"idle {time.monotonic() - began:.2f} s after the cancel was asked")
        generated = _generated(small, twin) - generated
    # The slowed servers' own clock: five tokens of each request are a second, however busy this machine is.
    print(f"{generated:.0f} tokens of {LONG_STEPS} requests were made meanwhile")
    assert generated <= 5 * LONG_STEPS
    shown = guide.send("GET", f"/runs/{run}").json
    assert shown["status"] == "cancelled"
    assert {step["status"] for step in shown["steps"]} == {"cancelled"}


def test_a_killed_replica_costs_no_run(start_server: Starter, small: Served, open_guide: Opener) -> None:
    mortal = start_server("understudy")
    vllm_serving.wait(mortal)
    guide = open_guide(top=pooled(mortal, small))
    with ExitStack() as stack:
        for served in (mortal, small):
            stack.enter_context(held.slowed(served))
        runs = [begun(guide, tour(n * TOWNS)) for n in range(RUNS)]
        until(lambda: mortal.running() >= 2, "steps at the one that is killed")
        mortal.kill()
    for n, run in enumerate(runs):
        shown = ended(guide, run)
        assert shown["status"] == "done", shown["error"]
        assert values(shown) == known(n * TOWNS)
        assert {step["attempts"] for step in shown["steps"]} == {1}, (
            "the engine's other replica was asked, within an attempt"
        )


def test_a_server_with_priorities_takes_the_order_that_is_sent(
    start_server: Starter, open_guide: Opener
) -> None:
    ordered = start_server("understudy", "--scheduling-policy", "priority", "--max-num-seqs", "1")
    vllm_serving.wait(ordered)
    guide = open_guide(top=pooled(ordered, sends_order=True))
    steps = {f"bulk{n}": _ask(FACTS[n].question(0)) for n in range(LONG_STEPS)}
    with held.slowed(ordered):
        run = begun(guide, steps, criteria="throughput", ignore_eos=True, max_tokens=40)
        until(
            lambda: ordered.figures()["vllm:num_requests_waiting"] == LONG_STEPS - 1,
            "all but one waiting in the server",
        )
        assert guide.ask(FACTS[0].question(1), fresh=True).text == FACTS[0].answer
        left = [step for step in guide.send("GET", f"/runs/{run}").json["steps"] if step["status"] != "done"]
    assert len(left) >= LONG_STEPS - 2, "who waits for an answer is not behind them"
    assert ended(guide, run)["status"] == "done"
    ordered.stop()


def ran(guide: Guide, steps: Mapping[str, Messages], **fields: Any) -> dict[str, Any]:
    """A run that its client waits for, once it has ended."""
    answered = guide.send("POST", "/runs", _run(guide, steps, "latency", fields))
    assert answered.status == 200, answered.body
    return answered.json


def begun(guide: Guide, steps: Mapping[str, Messages], criteria: str = "latency", **fields: Any) -> str:
    """The id of a run in the background."""
    answered = guide.send("POST", "/runs", _run(guide, steps, criteria, fields) | {"background": True})
    assert answered.status == 202, answered.body
    return str(answered.json["id"])


def ended(guide: Guide, run: str) -> dict[str, Any]:
    """The run, once it has ended."""
    until(lambda: guide.send("GET", f"/runs/{run}").json["status"] != "running", "its end")
    return guide.send("GET", f"/runs/{run}").json


def values(run: dict[str, Any]) -> dict[str, str]:
    """Of all of a run's variables."""
    return {name: variable["value"] for name, variable in run["variables"].items()}


def _run(
    guide: Guide, steps: Mapping[str, Messages], criteria: str, fields: dict[str, Any]
) -> dict[str, Any]:
    """A run's body; what no step reads is asked for."""
    read = str(list(steps.values()))
    return {
        "steps": [
            guide.body(messages, understudy={"output": {"name": name}}, **fields)
            for name, messages in steps.items()
        ],
        "get": {name: criteria for name in steps if f"{{{{{name}}}}}" not in read},
    }


def _ask(question: str) -> Messages:
    return [{"role": "user", "content": question}]


def _pair(question: str, output: str) -> Messages:
    return [*_ask(question), {"role": "assistant", "content": f"{{{{{output}}}}}"}]


def _filled(messages: Messages, found: Mapping[str, str]) -> Messages:
    """The messages with the values, as a client would put them in."""
    filled = []
    for message in messages:
        text = message["content"]
        for name, value in found.items():
            text = text.replace(f"{{{{{name}}}}}", value)
        filled.append(message | {"content": text})
    return filled


def _running(*servers: Served) -> int:
    return sum(served.running() for served in servers)


def _generated(*servers: Served) -> float:
    return sum(served.figures()["vllm:generation_tokens_total"] for served in servers)
