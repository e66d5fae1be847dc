"""What real engines do when they are left, flooded or killed, and what the gateway makes of it."""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.vllm import serving as vllm_serving
from benchmarks.vllm.serving import Served
from tests.vllm import held
from tests.vllm.conftest import MOST_QUEUED, STILL, Opener, Starter
from tests.vllm.guide import WORLD, Guide, Said, until

LONG = {"ignore_eos": True, "max_tokens": 700}
"""An answer that takes a while: the model goes on after its end."""
FACT = WORLD.facts[0]


@pytest.mark.parametrize("engine", ["small", "large"])
def test_a_client_that_hangs_up_frees_the_engine(
    open_guide: Opener, servers: tuple[Served, Served], engine: str
) -> None:
    served = servers[engine == "large"]
    guide = open_guide(engines=[engine], policy="fixed")
    before = served.figures()["vllm:generation_tokens_total"]
    with held.slowed(served):
        with guide.streaming(FACT.question(0), **LONG) as stream:
            next(stream.deltas())
            until(lambda: served.running() >= 1, "the engine at work")
        until(lambda: served.running() == 0, "the engine idle again", timeout_s=20)
    # It was left, and did not merely come to the end of its answer.
    assert 0 < served.figures()["vllm:generation_tokens_total"] - before < LONG["max_tokens"] / 2


def test_an_overloaded_engine_is_503_to_the_client_and_the_small_one_is_not_asked_instead(
    open_guide: Opener, large: Served
) -> None:
    guide = open_guide(engines=["large"], policy="fixed")
    refused, answered = _flooded(guide, large)
    assert {one.status for one in refused} == {503}
    assert all(one.json["error"]["message"] for one in refused)
    assert {(one.status, one.engine) for one in answered} == {(200, "large")}
    # So many refusals open the breaker.
    until(lambda: guide.ask(FACT.question(0)).status == 200, "the engine asked again")
    assert guide.ask(FACT.question(0)).text == FACT.answer


def test_under_overload_a_served_model_with_a_small_engine_answers_everybody(
    open_guide: Opener, large: Served
) -> None:
    guide = open_guide(**STILL)
    elsewhere, answered = _flooded(guide, large)
    assert {(one.status, one.engine) for one in elsewhere} == {(200, "small")}
    assert {(one.status, one.engine) for one in answered} == {(200, "large")}


def _flooded(guide: Guide, served: Served) -> tuple[list[Said], list[Said]]:
    """Twice as many questions at once as the server takes, while it computes nothing: what came back meanwhile, and what
    came once it went on."""

    def ask(number: int) -> Said:
        return guide.ask(f"{number}: {FACT.question(0)}", ignore_eos=True, max_tokens=200)

    with ThreadPoolExecutor(2 * MOST_QUEUED) as pool, held.held(served) as let_go:
        asked = [pool.submit(ask, number) for number in range(2 * MOST_QUEUED)]
        until(lambda: sum(each.done() for each in asked) >= MOST_QUEUED, "as many sent away as were taken")
        done = {each for each in asked if each.done()}
        let_go()
        return [each.result() for each in done], [each.result() for each in asked if each not in done]


def test_an_engine_killed_while_it_answers_is_an_error_to_that_client_and_nobody_else(
    start_server: Starter, large: Served, open_guide: Opener
) -> None:
    mortal = start_server("understudy")
    vllm_serving.wait(mortal)
    engines = {
        "mortal": {
            "kind": "vllm",
            "api_key": "none",
            "base_url": mortal.url,
            "model": mortal.model,
            "advanced": {"poll_s": 0.2},
        },
        "large": {
            "kind": "vllm",
            "api_key": "none",
            "base_url": large.url,
            "model": large.model,
            "advanced": {"poll_s": 0.2},
        },
    }
    alone = {"alone": {"engines": ["mortal"], "policy": "fixed"}}
    backed = {"town-guide": {"engines": ["large", "mortal"], "policy": "fixed"}}
    guide = open_guide(top={"engines": engines, "models": alone | backed})
    assert guide.ask(FACT.question(0), fresh=True).engine == "mortal"

    with held.slowed(mortal), guide.streaming(FACT.question(0), model="alone", **LONG) as stream:
        pieces = stream.deltas()
        next(pieces)
        mortal.kill()
        said = stream.rest()
    assert "[DONE]" not in said, "a stream that was cut must not look whole"
    # Whoever comes next is answered by the engine behind it, before and after it is known to be down.
    for _ in range(5):
        after = guide.ask(FACT.question(0), fresh=True)
        assert (after.status, after.engine, after.text) == (200, "large", FACT.answer)
    assert guide.ask(FACT.question(0), model="alone", fresh=True).status in (502, 503)

    port = int(mortal.root.rpartition(":")[2])
    again = start_server("understudy", port=port)
    vllm_serving.wait(again)
    until(lambda: guide.ask(FACT.question(0), fresh=True).engine == "mortal", "the engine asked again")
    assert guide.ask(FACT.question(0), model="alone", fresh=True).status == 200
    again.stop()


def test_a_gateway_killed_without_warning_loses_no_example(
    open_guide: Opener, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("survives")
    top = {"memory": _memory(folder)}
    first = open_guide(top=top, **STILL)
    first.teach_fact(FACT, 0)
    _kill_all(first.gateway.process.pid)
    first.gateway.process.wait()
    second = open_guide(top=top, **STILL)
    until(lambda: second.ask(FACT.question(1), fresh=True, engine="small").examples == 1, "its example")


def _kill_all(pid: int) -> None:
    """A process and its children at once, as a power cut would: supervisor, workers, learner."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    for each in (pid, *map(int, listed.stdout.split())):
        os.kill(each, signal.SIGKILL)


def _memory(folder: object) -> dict[str, object]:
    from tests.flow.line import MODELS

    patient = {"embedding_deadline_ms": 10_000, "retrieve_deadline_ms": 10_000}
    return {"data_dir": str(folder), "advanced": {"embedding_cache_dir": str(MODELS), **patient}}
