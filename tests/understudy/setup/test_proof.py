"""Which engines need proof."""

from __future__ import annotations

from typing import Any

from router.proving.standing import Action
from understudy.settings.file import parse_config
from understudy.settings.models import ModelSettings
from understudy.setup.proof import gates


def model(**changes: Any) -> ModelSettings:
    engines = {
        name: {"base_url": "http://x/v1", "api_key": "none", "price": {"input_usd_per_mtok": 1}}
        for name in "abc"
    }
    return parse_config(
        {"engines": engines, "models": {"m": {"engines": ["a", "b", "c"], "policy": "few_shot"} | changes}}
    ).models["m"]


def test_small_engines_need_proof_unless_it_is_switched_off() -> None:
    assert model().proves and model(policy="in_context").proves
    assert not model(proof="off").proves and not model(policy="fixed").proves


def test_a_bare_on_and_off_of_yaml_are_understood() -> None:
    assert model(proof=True).proof == "on" and model(proof=False).proof == "off"


def test_the_rule_proves_the_engine_it_asks_and_the_learning_policy_all_but_the_reference() -> None:
    made = gates(
        {"rule": model(max_loss=0.1), "learns": model(policy="in_context"), "off": model(proof="off")}, {}
    )
    assert set(made) == {"rule", "learns"}
    assert tuple(made["rule"].small) == ("a",) and made["rule"].max_loss == 0.1
    assert tuple(made["learns"].small) == ("a", "b") and made["learns"].max_loss == 0.05


def test_a_gate_begins_with_what_its_own_engine_rehearsed() -> None:
    rehearsal = {"model": "rule", "small": "a", "scopes": {"s": {"alone": [9, 0.42], "examples": [9, 0.8]}}}
    made = gates({"rule": model(), "learns": model(policy="in_context")}, {}, rehearsal)
    assert made["rule"].rehearsed == {"s": {Action("a", False): 0.4, Action("a", True): 0.8}}
    assert not made["learns"].rehearsed
