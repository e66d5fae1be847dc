"""Replace a provider in an incident, on the pages: it fails, others answer for every tenant, and it is taken back."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.real_gateway import Engine, RealGateway, real_gateway
from tests.browser.test_job_engine_down import fact
from tests.patience import wait_for

PRICED = {
    "model": "m",
    "api_key": "sk-of-the-provider",
    "price": {"input_usd_per_mtok": 9, "output_usd_per_mtok": 9},
}
CONFIG: dict[str, Any] = {
    "engines": {"azure": PRICED, "openai": PRICED, "tiny": PRICED},
    "models": {
        "chat": {"engines": ["openai", "azure"], "policy": "fixed"},
        "draft": {"engines": ["tiny", "azure"], "policy": "few_shot"},
        "summaries": {"engines": ["azure"], "policy": "fixed"},
    },
    "memory": {"exact": {"enabled": False}},
    "health": {"every_s": 3600},
}
REASON = "5xx since nine, ticket 4711"


def asked(gate: RealGateway, secrets: list[str], model: str = "chat") -> set[str]:
    """Who answers, by every worker and with every tenant's key; the HTTP status of a failure."""
    found = set()
    for worker in gate.workers:
        for secret in secrets:
            try:
                found.add(gate.ask("Who answers?", model=model, worker=worker, key=secret).text)
            except openai.APIStatusError as error:
                found.add(str(error.status_code))
    return found


def to_engines(page: Page) -> None:
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Engines").click()


@pytest.mark.slow
def test_a_provider_that_fails_is_replaced_for_every_tenant_and_taken_back(
    tmp_path: Path, profile: Callable[..., BrowserContext]
) -> None:
    engines = {name: Engine(f"By {name}.") for name in ("azure", "openai", "tiny")}
    with real_gateway(tmp_path, CONFIG, engines=engines) as gate:
        secrets = [gate.store.keys.create(tenant, "app")[1] for tenant in ("acme", "umbrella")]
        wait_for(lambda: asked(gate, secrets) == {"By azure."}, "the keys known", log=gate.gateway.log)
        page = gate.signed_in(profile())
        page.on("dialog", lambda dialog: dialog.accept())
        azure, openai_card = page.locator("#engine-azure"), page.locator("#engine-openai")

        # Slow first: what it needs now stands in the overview, and beside the day's percentiles.
        engines["azure"].says = lambda _: time.sleep(0.5) or "By azure."
        for _ in range(2):
            asked(gate, secrets)
        gate.settle()
        row = page.get_by_role("region", name="Engines").get_by_role("row").filter(has_text="azure")
        expect(row.locator("td").nth(4)).to_have_text(re.compile(r"[1-9]\d\d.ms|[1-9]\.\d.s"))

        # Then 5xx: the overview names it, and leads to its card, which says who answers instead, by model.
        engines["azure"].fails_with = 503
        for _ in range(4):
            assert asked(gate, secrets) == {"By openai."}
        gate.settle()
        alarm = page.locator(".attention li", has_text="azure is down")
        expect(alarm).to_contain_text("critical")
        alarm.get_by_role("link").click()
        expect(azure.locator(".head .badge")).to_have_text("down")
        expect(fact(azure, "Errors by kind")).to_contain_text(re.compile(r"server error \(5xx\) \d+"))
        expect(fact(azure, "Latency")).to_contain_text(re.compile(r"p95 .*; lately "))
        expect(fact(azure, "chat")).to_have_text("openai")
        for model in ("draft", "summaries"):
            expect(fact(azure, model)).to_contain_text("nobody")
            assert asked(gate, secrets, model) == {"503"}

        # It comes and goes: so it is drained until somebody says otherwise.
        azure.locator("summary", has_text="Drain azure").click()
        azure.get_by_label("Reason").fill(REASON)
        azure.get_by_label("Stand-in").select_option("openai")
        azure.get_by_role("button", name="Drain", exact=True).click()
        expect(page.locator("main > .flash")).to_contain_text("openai is asked")
        expect(azure.locator(".flash.warn")).to_contain_text("Drained by ann since")
        expect(azure.locator(".flash.warn")).to_contain_text(REASON)
        expect(azure.locator(".flash.warn")).not_to_contain_text("Not every worker")
        engines["azure"].fails_with, engines["azure"].says = None, "By azure."
        before = len(engines["azure"].asked)
        assert asked(gate, secrets) == {"By openai."}, "for every tenant, by every worker"
        assert asked(gate, secrets, "summaries") == {"By openai."}, "whose model has no other engine"
        assert len(engines["azure"].asked) == before, "it is asked nothing"
        gate.settle()
        # Clients are served: the other one's card counts them, and the list shows them.
        expect(fact(openai_card, "Requests")).to_contain_text("in the place of another engine")
        fact(openai_card, "Requests").get_by_role("link").click()
        expect(page.locator("table.requests tbody tr").first).to_contain_text("failed over")

        # Back again: tested first, then restored.
        to_engines(page)
        azure.get_by_role("button", name="Test", exact=True).click()
        expect(page.locator("main > .flash")).to_contain_text("azure passed its test")
        azure.get_by_role("button", name="Restore azure").click()
        expect(page.locator("main > .flash")).to_contain_text("azure is resumed")
        wait_for(lambda: asked(gate, secrets) == {"By azure."}, "azure asked again", log=gate.gateway.log)
        expect(azure.locator(".head .badge")).to_have_text("up")
        assert asked(gate, secrets, "summaries") == {"By azure."}

        # Who did it, when, and why.
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Audit").click()
        page.get_by_label("On what").fill("azure")
        page.get_by_role("button", name="Show").click()
        for action in ("engines/drain", "engines/test", "engines/resume"):
            expect(page.get_by_role("row").filter(has_text=action)).to_contain_text("ann")
        expect(page.get_by_role("row").filter(has_text="engines/drain")).to_contain_text(REASON)
