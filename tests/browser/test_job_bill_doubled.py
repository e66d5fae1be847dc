"""Why did our bill double? On the pages alone: from the cost page to the causes, the key, its requests, and a budget."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from store.records import Key
from store.sums import DAY_S
from tests.browser.real_gateway import Engine, RealGateway, real_gateway
from tests.patience import wait_for
from tests.store.rows import request_record

CONFIG: dict[str, Any] = {
    "engines": {
        "small": {"price": {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 4.0}},
        "large": {"price": {"input_usd_per_mtok": 20.0, "output_usd_per_mtok": 20.0}},
    },
    "models": {
        "demo": {"engines": ["small", "large"], "policy": "fixed"},
        "chat": {"engines": ["small"], "policy": "fixed"},
    },
}


HIT = {"engine": "", "outcome": "hit", "prompt_tokens": 0, "completion_tokens": 0, "cost_usd": 0.0}


def day(gate: RealGateway, ago: int, key: Key, model: str, hits: int = 0, **asked: Any) -> None:
    """Forty requests of a key on a past day, the first of them cache hits."""
    nine = (time.time() // DAY_S - ago) * DAY_S + 9 * 3600
    whose = {"tenant": key.tenant, "key_id": key.id, "model": model, "policy": "fixed", "example_ids": ()}
    for number in range(40):
        fields = {"completion_tokens": 100, **whose, **asked, **(HIT if number < hits else {})}
        id = f"{key.id[-8:]}{ago:04}{number:020}"
        made = request_record(number, id=id, started_at_s=nine + number, **fields)
        gate.store.decisions.requests.record(made).result(60)


def moved(page: Page, part: str) -> Locator:
    rows = page.get_by_role("region", name="What moved").locator("tbody tr")
    return rows.filter(has=page.locator("td:first-child", has_text=re.compile(f"^{re.escape(part)}")))


def dollars(cell: Locator) -> float:
    return float(cell.inner_text().replace("$", "").replace("−", "-").replace("+", ""))


@pytest.mark.slow
def test_a_bill_that_doubled_leads_to_its_causes_its_requests_and_a_budget(
    tmp_path: Path, profile: Callable[..., BrowserContext]
) -> None:
    engines = {"small": Engine("Small."), "large": Engine("Large.")}
    with real_gateway(tmp_path, CONFIG, engines=engines) as gate:
        web, _ = gate.store.keys.create("acme", "web")
        batch, secret = gate.store.keys.create("acme", "batch")
        for ago in (2, 1):
            day(gate, ago, web, "chat", engine="small", prompt_tokens=100, cost_usd=0.0045)
        # Longer prompts, no hits any more, and a dearer token: $10 a million then, $20 now.
        day(gate, 2, batch, "demo", hits=20, engine="large", prompt_tokens=900, cost_usd=0.01)
        day(gate, 1, batch, "demo", engine="large", prompt_tokens=1400, cost_usd=0.03)

        page = gate.signed_in(profile())
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Cost").click()
        page.get_by_role("navigation", name="Period").get_by_role("link", name="Yesterday").click()
        expect(page.locator(".figure", has_text="Charged")).to_contain_text("$0.380 in the time before, +263")
        expect(moved(page, "Share that engines answered")).to_contain_text("75")
        expect(moved(page, "Prompt tokens")).to_contain_text("367")
        factors = ("Requests", "Share that engines answered", "Tokens per request", "$ per million tokens")
        explained = {part: dollars(moved(page, part).locator("td").last) for part in factors}
        assert sum(explained.values()) == pytest.approx(1.38 - 0.38, abs=0.01), explained
        assert explained["Requests"] == 0 < min(explained[part] for part in factors[1:]), explained

        # Who: one key's row stands first, with what each cause was for it.
        first = page.locator("#groups tbody tr").first
        for name, now, before in (
            ("Charged", "$1.20", "$0.200"),
            ("Cache hits", "0", "20"),
            ("Tokens per request", "1500", "1000"),
            ("$ per million tokens", "$20.00", "$10.00"),
        ):
            expect(first.locator(f"[data-label='{name}']")).to_have_text(f"{now}before {before}")
        expect(first).to_contain_text("batch (acme)")

        # Which requests: those that cost as much or more, and one of them.
        first.locator("[data-label='$ per request'] a").click()
        expect(page.get_by_label("Cost at least, $")).to_have_value("0.0297")
        expect(page.locator("table.requests tbody tr")).to_have_count(40)
        page.locator("table.requests tbody tr a.row").first.click()
        expect(page.get_by_role("heading", name=re.compile("^Request "))).to_be_visible()
        expect(page.locator(".figure", has_text="Cost")).to_contain_text("$0.0300")

        # The price: of the same model and engine, so it is the configuration's; which the engine's card says.
        page.go_back()
        page.go_back()
        page.locator("#moved").get_by_role("link", name="by model and engine").click()
        first = page.locator("#groups tbody tr").first
        expect(first.locator("[data-label='$ per million tokens']")).to_have_text("$20.00before $10.00")
        first.get_by_role("link", name="large").click()
        expect(page.locator("#engine-large")).to_contain_text("$20.00 in, $20.00 out")

        # What stops it: a budget of the key.
        page.goto(gate.admin_url + "/cost?span=yesterday")
        page.locator("#groups").get_by_role("link", name="batch (acme)").click()
        expect(page.get_by_role("heading", name="Key batch")).to_be_visible()
        page.get_by_label("Budget per day, $").first.fill("0.00001")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.locator("main > .flash")).to_contain_text("Saved: limits")
        expect(page.locator("#use")).to_contain_text("Budget per day")

        def stopped() -> bool:
            try:
                gate.ask("Once more, at length?", key=secret, headers={"Cache-Control": "no-store"})
            except openai.RateLimitError:
                return True
            return False

        wait_for(stopped, "the budget holds", log=gate.gateway.log)
