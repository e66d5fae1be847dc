"""A reviewer's job: sampled answers, one by one, by the keyboard alone, without knowing who gave them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.real_gateway import Engine, real_gateway
from tests.browser.ways import SCRIPTED


@pytest.mark.slow
def test_answers_are_reviewed_by_the_keyboard_and_a_bad_one_is_not_given_again(
    tmp_path: Path, profile: Callable[..., BrowserContext]
) -> None:
    config = {"models": {"demo": {"engines": ["large"]}}}
    with real_gateway(tmp_path, config, engines={"large": Engine("Within 24 hours.")}) as gate:
        page = gate.signed_in(profile())
        page.goto(gate.admin_url + "/review")
        expect(page.get_by_text("The queue is empty")).to_be_visible()
        for label in ("Offloaded, %", "Reference, %"):
            page.get_by_label(label).fill("100")
        page.get_by_role("button", name="Sample so from now on").press("Enter")
        expect(page.locator("main > .flash")).to_contain_text("Sampled so from now on")
        asked = [gate.ask(f"How long does parcel {n} take?", stream=False) for n in range(4)]
        gate.settle()
        page.goto(gate.admin_url + "/overview")
        page.goto(gate.admin_url + "/review#review")
        item = page.locator(".review-item")

        def stands_there(text: str) -> None:
            expect(item).to_contain_text(text)
            if SCRIPTED:
                expect(item).to_be_focused()

        def says(key: str, button: str) -> None:
            if SCRIPTED:
                page.keyboard.press(key)
            else:
                item.get_by_role("button", name=button).click()

        expect(page.locator("#review h2")).to_have_text("4 to review")
        stands_there("parcel 3")
        assert "large" not in page.locator("#review").inner_text(), "who answered is hidden"
        says("g", "Good")
        stands_there("parcel 2")
        says("s", "Skip")
        stands_there("parcel 1")
        says("b", "Bad")
        stands_there("parcel 0")
        correction = page.locator("textarea[name=correction]")
        if SCRIPTED:
            page.keyboard.press("c")
            expect(correction).to_be_focused()
            page.keyboard.press("ControlOrMeta+a")
            page.keyboard.type("Within 48 hours, say bags.")
            page.keyboard.press("Tab")
            page.keyboard.press("Enter")
        else:
            item.get_by_text("Correct it…").click()
            correction.fill("Within 48 hours, say bags.")
            item.get_by_role("button", name="Correct", exact=True).click()
        expect(page.get_by_text("The queue is empty")).to_be_visible()
        verdicts = page.locator("#verdicts tbody tr")
        expect(verdicts).to_have_count(4)
        expect(verdicts.nth(0)).to_contain_text("corrected")
        first = gate.store.decisions.requests.get(asked[0].decision_id)
        assert first is not None
        found = {
            each.decision_id: [
                (o.source, o.quality, o.probability)
                for o in gate.store.outcomes.of(first.tenant, each.decision_id)
            ]
            for each in asked
        }
        assert [found[each.decision_id] for each in asked] == [
            [("label", 0.25, 1.0)],
            [("label", 0.0, 1.0)],
            [],
            [("label", 1.0, 1.0)],
        ]
        for number, hits in ((1, False), (3, True)):
            again = gate.ask_each_worker(f"How long does parcel {number} take?")
            assert [each.hit for each in again] == [hits, hits], (
                "a bad answer is given anew, a good one again"
            )
