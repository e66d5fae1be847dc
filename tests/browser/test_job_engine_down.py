"""Is an engine down? In a real Chromium, by keyboard: since when, why, whether it answers again, and what it cost nobody."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.real_gateway import Engine, RealGateway, real_gateway

REASON = "the host is being replaced"
CONFIG = {
    "engines": {
        "small": {"model": "s", "api_key": "k", "price": {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}},
        "large": {"model": "l", "api_key": "k", "price": {"input_usd_per_mtok": 9, "output_usd_per_mtok": 9}},
    },
    "models": {"demo": {"engines": ["small", "large"]}},
    # Nobody is asked whether it lives but where it is down.
    "health": {"every_s": 3600},
}


def figures(gate: RealGateway, page: Page) -> dict[str, Any]:
    """The overview's twin."""
    gate.settle()
    return dict(page.request.get(f"{gate.admin_url}/overview.json?span=day").json())


def fact(card: Any, name: str) -> Any:
    """What an engine's card says under a name."""
    return card.locator("dt", has_text=re.compile(rf"^{name}$")).locator("xpath=following-sibling::dd[1]")


@pytest.mark.slow
def test_an_engine_that_is_down_is_found_tested_drained_and_restored(
    tmp_path: Path, profile: Callable[..., BrowserContext]
) -> None:
    engines = {"small": Engine("From the small one."), "large": Engine("From the large one.")}
    with real_gateway(tmp_path, CONFIG, engines=engines) as gate:
        page = gate.signed_in(profile())
        page.goto(f"{gate.admin_url}/engines")
        large = page.locator("#engine-large")
        expect(large.locator(".head .badge")).to_have_text("untested")
        expect(fact(large, "Health check")).to_contain_text("none yet")

        assert gate.ask("Who answers?").text == "From the large one."
        expect(large.locator(".head .badge")).to_have_text("up")
        before = figures(gate, page)
        assert (before["kinds"]["offloaded"], before["kinds"]["failed_over"]) == (0, 0)

        gate.engines["large"].kill()
        for number in range(16):
            given = gate.ask(f"And now, {number}?", worker=gate.workers[number % 2])
            assert given.text == "From the small one."
        expect(large.locator(".head .badge")).to_have_text("down")
        expect(large.locator(".head small time")).to_be_visible()
        expect(fact(large, "Last error")).to_contain_text("Connection refused")
        expect(fact(large, "Errors by kind")).to_contain_text(re.compile(r"connection failed \d+"))
        # It is probed while it is down, and how long that took is said.
        expect(fact(large, "Health check")).to_contain_text(re.compile(r"failed in .*ms"))
        after = figures(gate, page)
        assert after["kinds"]["failed_over"] == 16 and after["kinds"]["offloaded"] == 0
        assert after["offload_share"] == before["offload_share"]
        saved = pytest.approx(before["money"]["saved_usd"], abs=1e-12)
        assert after["money"]["saved_usd"] == saved, "an outage saves nothing"
        attention = json.dumps(after["attention"])
        assert "large is down" in attention

        large.get_by_role("button", name="Test", exact=True).press("Enter")
        expect(page.locator("main > .flash")).to_contain_text("large failed its test: health check failed")
        summary = large.locator("summary", has_text="Drain large")
        summary.focus()
        page.keyboard.press("Enter")
        large.get_by_label("Reason").fill(REASON)
        page.once("dialog", lambda dialog: dialog.accept())
        page.keyboard.press("Enter")
        expect(page.locator("main > .flash")).to_contain_text("large is drained")
        expect(large.locator(".flash.warn")).to_contain_text("Drained by ann since")
        expect(large.locator(".flash.warn")).to_contain_text(REASON)

        gate.engines["large"].revive()
        large.get_by_role("button", name="Test", exact=True).press("Enter")
        expect(page.locator("main > .flash")).to_contain_text("large passed its test: answered in")
        expect(fact(large, "Test")).to_contain_text(re.compile(r"passed.*by ann.*answer .*ms"))
        expect(large.locator(".head .badge")).to_have_text("drained")
        large.get_by_role("button", name="Restore").press("Enter")
        expect(page.locator("main > .flash")).to_contain_text("large is resumed")
        expect(large.locator(".head .badge")).not_to_have_text("drained")

        def answers(number: int) -> str:
            return gate.ask(f"Back again, {number}?").text

        numbers = iter(range(10_000))
        gate.gateway.wait_for(lambda: answers(next(numbers)) == "From the large one.", "large asked again")
        expect(large.locator(".head .badge")).to_have_text("up")
        page.goto(f"{gate.admin_url}/audit")
        for action in ("/engines/test", "engines/drain", "engines/resume"):
            expect(page.locator("tbody", has_text=action)).to_be_visible()
        expect(page.locator("tbody")).to_contain_text(REASON)
