"""An operator's job: what would a preference of 0.7 bring? Simulated, changed for one tenant, and undone, on pages alone."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from store.records import OutcomeRecord
from tests.browser.real_gateway import Engine, RealGateway, real_gateway
from tests.patience import PATIENCE_S, wait_for

THEMES = ("capital", "river", "mountain", "language", "currency")
PLACES = ("France", "Spain", "Italy", "Norway", "Peru", "Chile", "Japan", "Kenya", "Canada", "Poland")
CONFIG: dict[str, Any] = {
    "engines": {
        "small": {"price": {"input_usd_per_mtok": 0.1, "output_usd_per_mtok": 0.4}},
        "large": {"price": {"input_usd_per_mtok": 2.5, "output_usd_per_mtok": 10}},
    },
    "models": {
        "demo": {
            "engines": ["small", "large"],
            "policy": "in_context",
            "proof": "off",
            "few_shot": {"theta": 0.3, "m": 1},
            "advanced": {
                "outcomes_needed": 10,
                "epsilon": 0.5,
                "key_share": 1,
                "scorer_deadline_ms": 10_000,
            },
        }
    },
    "memory": {"exact": {"enabled": False}},
    "learning": {
        "enabled": True,
        "advanced": {"every_s": 0.5, "min_new_outcomes": 10},
    },
    "judging": None,
}


def traffic(gate: RealGateway, theme: str, rounds: int) -> str:
    """Questions whose answers the judge finds good where the small engine knows the place; gives the last decision's id."""
    for number in range(rounds):
        place = PLACES[number % len(PLACES)]
        given = gate.ask(f"What is the {theme} of {place}, number {number}?", stream=False)
        gate.settle()
        choice = gate.store.decisions.choices.get(tenant_of(gate, given.decision_id), given.decision_id)
        if choice is not None and choice.engine == "small":
            judged = OutcomeRecord(
                *(
                    choice.request_id,
                    choice.tenant,
                    time.time(),
                    "judge",
                    "judge",
                    "small",
                    choice.example_ids,
                ),
                served=True,
                quality=float(number % 3 > 0),
            )
            gate.store.outcomes.note(judged).result(PATIENCE_S)
    return given.decision_id


def tenant_of(gate: RealGateway, decision_id: str) -> str:
    record = gate.store.decisions.requests.get(decision_id)
    assert record is not None
    return record.tenant


def preferences(gate: RealGateway, key: str) -> list[float]:
    """By which preference each worker decides this key's requests."""
    given = [gate.ask("What is the capital of Peru?", worker=worker, key=key) for worker in gate.workers]
    gate.settle()
    found = []
    for each in given:
        choice = gate.store.decisions.choices.get(tenant_of(gate, each.decision_id), each.decision_id)
        assert choice is not None
        found.append(choice.settings["preference"])
    return found


@pytest.mark.slow
def test_a_preference_is_simulated_changed_for_one_tenant_and_undone(
    tmp_path: Path, profile: Callable[..., BrowserContext]
) -> None:
    engines = {"small": Engine("Small says so."), "large": Engine("Large says so.")}
    config = {name: value for name, value in CONFIG.items() if value is not None}
    with real_gateway(tmp_path, config, engines=engines) as gate:
        for theme in THEMES:
            tenant = tenant_of(gate, traffic(gate, theme, 12))
        wait_for(
            lambda: gate.store.artifacts.active("bandit", tenant, "demo"),
            "a learnt router",
            log=gate.gateway.log,
        )
        gate.ask("What is the capital of Chile?", key="sk-other")
        traffic(gate, "flag", 12)
        page = gate.signed_in(profile())
        page.goto(gate.admin_url + "/router?model=demo")
        page.get_by_role("link", name="Simulate other settings").click()
        page.get_by_label("Tenant").select_option(tenant)
        page.get_by_label("Preference").fill("0.7")
        page.get_by_role("button", name="Run").click()
        said = page.locator("#effect .sentence")
        expect(said).to_be_visible()
        number, within = r"\d+(\.\d+)?", r"\(\d+(\.\d+)? to \d+(\.\d+)?\)"
        expect(said).to_have_text(
            re.compile(
                rf"preference 0\.70 instead of 0\.50: {number} → {number} % offloaded {within}, quality {number} →"
                rf" {number} % {within}, \${number} → \${number} per 1,000 requests {within}\."
            )
        )
        page.get_by_role("link", name="Change the settings…").click()
        expect(page.get_by_text("Nothing is changed yet.")).to_be_visible()
        page.get_by_role("button", name="Change", exact=True).press("Enter")
        expect(page.locator("main > .flash")).to_contain_text("In force")
        wait_for(
            lambda: preferences(gate, gate.key) == [0.7, 0.7], "both workers follow", log=gate.gateway.log
        )
        assert preferences(gate, "sk-other") == [0.5, 0.5], "another tenant's requests are decided as before"
        page.get_by_role("button", name="Undo for").click()
        expect(page.locator("main > .flash")).to_contain_text("Undone")
        wait_for(
            lambda: preferences(gate, gate.key) == [0.5, 0.5], "both workers go back", log=gate.gateway.log
        )
