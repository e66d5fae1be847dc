"""Promote or roll back? In a real Chromium: what the learner made, how much better each version is, and what serves now."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.real_gateway import Engine, RealGateway, real_gateway
from tests.browser.ways import SCRIPTED
from tests.patience import PATIENCE_S

SHOP, MUSEUM = "When does the bakery in Main Street open", "At what hour does the city museum close its doors"
ENOUGH = 180
"""Outcomes: of 170 the latest 34 are held out."""
_numbers = itertools.count()
CONFIG: dict[str, Any] = {
    "engines": {
        "small": {"model": "s", "api_key": "k", "price": {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}},
        "large": {"model": "l", "api_key": "k", "price": {"input_usd_per_mtok": 9, "output_usd_per_mtok": 9}},
    },
    "models": {
        "demo": {
            "engines": ["small", "large"],
            "policy": "in_context",
            "proof": "off",
            "few_shot": {"m": 1, "theta": 0.6},
            "advanced": {"outcomes_needed": 170},
        }
    },
    "learning": {
        "enabled": True,
        "advanced": {"every_s": 0.3, "min_new_outcomes": 10},
    },
}


def rated(gate: RealGateway, numbers: range) -> None:
    """Questions with feedback: the small engine does well with one kind of them and badly with the other."""
    first, second = gate.workers
    with gate.client(first) as one, gate.client(second) as other:
        for number in numbers:
            what = (SHOP, MUSEUM)[number % 2]
            raw = (one, other)[number // 2 % 2].chat.completions.with_raw_response.create(
                model="demo", messages=[{"role": "user", "content": f"{what}? Ticket {number}."}]
            )
            offloaded = raw.headers["x-understudy-engine"] == "small"
            score = 0.0 if offloaded and what == SHOP else 1.0
            if number % 20 == 0:
                gate.settle()
            gate.gateway.post(
                "/feedback", {"decision_id": raw.headers["x-understudy-decision-id"], "score": score}
            )


def deciding(gate: RealGateway) -> set[str]:
    """The versions that the workers decide with, one answer of each."""
    given = [gate.ask(f"{SHOP}? Once more, {next(_numbers)}.", worker=worker) for worker in gate.workers]
    gate.settle()
    found = [gate.store.decisions.requests.get(one.decision_id) for one in given]
    return {record.policy_version for record in found if record is not None}


@pytest.mark.slow
def test_versions_are_compared_rolled_back_frozen_and_the_workers_follow(
    tmp_path: Path, profile: Callable[..., BrowserContext]
) -> None:
    engines = {"small": Engine("At nine."), "large": Engine("At eight, and at six.")}
    with real_gateway(tmp_path, CONFIG, engines=engines) as gate:
        page = gate.signed_in(profile())
        page.goto(f"{gate.admin_url}/learning")
        serving = page.get_by_role("region", name="In use").locator("tbody tr")
        expect(serving.filter(has_text="Router for demo (all tenants)")).to_contain_text("built-in")
        built_in = deciding(gate)

        mine = serving.filter(has_not_text="all tenants").filter(has_text="Router for demo")
        rated(gate, range(ENOUGH))
        # Whether there is anything to be learnt goes by how often the large engine was tried, which is drawn.
        for more in range(ENOUGH, 10 * ENOUGH, 20):
            if mine.filter(has_text=re.compile(r"version \d+")).count():
                break
            rated(gate, range(more, more + 20))
            if not SCRIPTED:
                page.reload()
        # What is read is the page: it shows the version as soon as the learner has made it.
        expect(mine).to_contain_text(re.compile(r"version \d+"), timeout=1000 * PATIENCE_S)
        section = page.locator("section", has=page.get_by_role("heading", name="Router for demo"))
        rows = section.locator("tbody tr")
        expect(rows.last).to_contain_text("what is built in")
        compared = rows.filter(has_text=re.compile(r"better|worse|no clear difference"))
        expect(compared.first).to_be_visible()
        first = compared.last.locator("td")
        assert int(first.nth(3).inner_text()) >= 30, "outcomes that both were compared on"
        assert "built-in" in first.nth(4).inner_text()
        assert re.search(r"\(.* to .*\)", first.nth(6).inner_text()), "with its interval"
        if SCRIPTED:
            expect(section.locator(".chart .plot-container")).to_be_visible()
        expect(section.locator(".chart")).to_have_attribute("aria-label", re.compile("before and after"))
        gate.gateway.wait_for(lambda: not deciding(gate) & built_in, "both workers decide with it")

        section.get_by_role("button", name="Freeze").press("Enter")
        expect(page.locator("main > .flash")).to_contain_text("Frozen")
        learnt = deciding(gate)
        found = re.search(r"version (\d+)", mine.inner_text())
        assert found is not None
        frozen_at = rows.filter(has=page.locator("td:first-child", has_text=re.compile(f"^{found[1]}$")))
        page.once("dialog", lambda dialog: dialog.accept())
        rows.last.get_by_role("button", name="Use").press("Enter")
        flash = page.locator("main > .flash")
        expect(flash).to_contain_text("In use now: built-in. It stays frozen")
        expect(flash).not_to_contain_text("freeze to keep")
        expect(mine).to_contain_text("built-in")
        gate.gateway.wait_for(lambda: deciding(gate) == built_in, "both workers decide as before")

        page.once("dialog", lambda dialog: dialog.accept())
        frozen_at.get_by_role("button", name="Use").press("Enter")
        expect(page.locator("main > .flash")).to_contain_text(f"In use now: version {found[1]}.")
        expect(mine).to_contain_text(f"version {found[1]}")
        gate.gateway.wait_for(lambda: deciding(gate) == learnt, "both workers decide with it again")
