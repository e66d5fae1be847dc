"""`understudy demo`: whatever is asked of it, its gateway has a configuration that is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from simulation.demo import run as demo_run
from simulation.demo.notes import with_notes
from simulation.demo.settings import DemoSettings, gateway_config
from simulation.stream import Stream
from simulation.world import World
from understudy.__main__ import main
from understudy.settings.file import parse_config


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> list[DemoSettings]:
    """What the demo would be run with; nothing is."""
    found: list[DemoSettings] = []

    async def run(settings: DemoSettings, *_: Any, **__: Any) -> int:
        found.append(settings)
        return 0

    monkeypatch.setattr(demo_run, "run", run)
    return found


@pytest.mark.parametrize(
    ("words", "policy", "proof"),
    [
        ((), "in_context", "floor"),
        (("--policy", "few_shot"), "few_shot", "off"),
        (("--policy", "few_shot", "--proof", "on"), "few_shot", "on"),
        (("--proof", "on"), "in_context", "on"),
        (("--proof", "off", "--feedback", "0"), "in_context", "off"),
    ],
)
def test_every_way_to_ask_for_it_makes_a_configuration(
    asked_for: list[DemoSettings], tmp_path: Path, words: tuple[str, ...], policy: str, proof: str
) -> None:
    done = CliRunner().invoke(main, ["demo", *words])
    assert done.exit_code == 0, done.output
    (settings,) = asked_for
    assert (settings.policy, settings.proof) == (policy, proof)
    parse_config(gateway_config(settings, tmp_path))


def test_a_guarantee_of_a_policy_that_expects_nothing_is_refused(asked_for: list[DemoSettings]) -> None:
    done = CliRunner().invoke(main, ["demo", "--policy", "few_shot", "--proof", "floor"])
    assert done.exit_code == 2 and "needs --policy in_context" in done.output and not asked_for


def test_real_models_are_played_with_by_their_urls(asked_for: list[DemoSettings], tmp_path: Path) -> None:
    urls = ["--small", "http://127.0.0.1:9001/v1", "--large", "http://127.0.0.1:9002/v1"]
    done = CliRunner().invoke(main, ["demo", "--real", "--seconds", "5", *urls])
    assert done.exit_code == 0, done.output
    (settings,) = asked_for
    assert (settings.policy, settings.proof, settings.rate_per_s, settings.seconds) == (
        "few_shot",
        "off",
        None,
        5,
    )
    config = parse_config(gateway_config(settings, tmp_path))
    assert {engine.kind for engine in config.engines.values()} == {"openai"}
    world = World(settings.seed, settings.facts)
    asks = with_notes(world, list(Stream(world, 200, seed=settings.seed)))
    assert len({str(ask.messages[0]) for ask in asks}) == 1, "one scope: past answers are examples for all"
    for ask in asks:
        assert ask.messages[0]["role"] == "system" and all(
            turn["role"] != "system" for turn in ask.messages[1:]
        )
        if len(ask.facts) == 1:
            assert ask.facts[0].value in ask.messages[0]["content"]
            assert world.grade(ask.messages, f"It is {ask.facts[0].value}.") == 1


def test_real_models_need_both_urls(asked_for: list[DemoSettings]) -> None:
    done = CliRunner(env={"SMALL": "http://127.0.0.1:9001/v1"}).invoke(main, ["demo", "--real"])
    assert done.exit_code == 2 and "make demo REAL=1" in done.output and not asked_for
