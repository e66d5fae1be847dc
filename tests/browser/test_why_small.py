"""Job: why did the small engine answer, and with which examples? Read off the pages of a real gateway with two workers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.real_gateway import Engine, RealGateway, real_gateway
from tests.browser.ways import WAY

QUESTION = "How do I list all files in a directory on Linux, including hidden ones?"
ALIKE = "How can I list all files in a Linux directory, including the hidden ones?"
PRICED = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 4.0}
CHEAP = {"input_usd_per_mtok": 0.1, "output_usd_per_mtok": 0.4}


def config(policy: str) -> dict[str, Any]:
    still = {"epsilon": 0, "key_share": 0, "scorer_deadline_ms": 10_000}
    model: dict[str, Any] = {
        "engines": ["small", "large"],
        "policy": policy,
        "proof": "off",
        "few_shot": {"theta": 0.77, "m": 1},
    }
    return {
        "engines": {"small": {"price": CHEAP}, "large": {"price": PRICED}},
        "models": {"demo": model | ({"advanced": still} if policy == "in_context" else {})},
    }


def find(page: Page, text: str) -> None:
    """By the box in the header, by keyboard alone."""
    if WAY == "without-scripts":
        page.get_by_role("searchbox").focus()
    else:
        page.keyboard.press("/")
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def dollars(text: str) -> float:
    found = re.search(r"\$([\d.]+)", text)
    assert found, text
    return float(found[1])


def explained(gate: RealGateway, page: Page) -> None:
    first = gate.ask(QUESTION)
    gate.settle()
    asked = {}
    for worker in gate.workers:
        # Each worker follows the bank, and answers with what the other one has learnt.
        asked[worker] = gate.ask(ALIKE, worker=worker, headers={"Cache-Control": "no-cache"})
        assert asked[worker].text == "Small: use ls -a."
    gate.settle()
    for given in asked.values():
        find(page, given.completion_id)
        expect(page.get_by_role("heading", name=f"Request {given.decision_id[:10]}")).to_be_visible()
        expect(page.locator("#rule")).to_have_text(
            re.compile(r"^Rule: 0\.\d{3} ≥ least similarity 0\.77; (1 of 1 needed|\d found, 1 needed)\.$")
        )
        sent = page.locator("tr.chosen", has=page.get_by_text("sent", exact=True)).first
        expect(sent).to_contain_text(QUESTION)
        expect(page.locator("li.message.added").first).to_contain_text(QUESTION)
    find(page, first.decision_id)
    expect(page.locator("#rule")).to_have_text(
        "Rule: no past request to compare with, least similarity 0.77; 0 of 1 needed."
    )


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["few_shot", "in_context"])
def test_why_the_small_engine_answered_and_with_which_examples(
    tmp_path: Path, profile: Callable[..., BrowserContext], policy: str
) -> None:
    engines = {"small": Engine("Small: use ls -a."), "large": Engine("Large: use ls -a.")}
    with real_gateway(tmp_path, config(policy), engines=engines) as gate:
        page = gate.signed_in(profile())
        explained(gate, page)
        if policy == "few_shot":
            return
        last = gate.ask(ALIKE + " Please.", headers={"Cache-Control": "no-cache"})
        gate.settle()
        find(page, last.decision_id)
        expect(page.get_by_role("heading", name=f"Request {last.decision_id[:10]}")).to_be_visible()
        taken = page.locator("tr.chosen", has_text="taken")
        expected = dollars(taken.locator("td").nth(4).inner_text())
        actual = dollars(page.locator(".figure", has_text="Cost").inner_text())
        assert actual / 5 <= expected <= actual * 5, (expected, actual)
