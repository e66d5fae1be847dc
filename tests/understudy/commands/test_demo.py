"""`understudy demo`: whatever is asked of it, its gateway has a configuration that is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from simulation.demo import run as demo_run
from simulation.demo.settings import DemoSettings, gateway_config
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
