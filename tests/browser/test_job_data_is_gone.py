"""Prove to a customer that his data is gone: he is forgotten on the pages, nothing of his is found, and it is stated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.real_gateway import Engine, RealGateway, real_gateway
from tests.browser.ways import WAY
from tests.patience import wait_for

PRICE = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 1.0}
CONFIG: dict[str, Any] = {
    "engines": {"small": {"price": PRICE}, "large": {"price": PRICE}},
    "models": {"demo": {"engines": ["small", "large"], "policy": "few_shot", "proof": "off"}},
}
HIS, OTHERS = "Where do I send the invoice of Qwertz Ltd?", "When does the museum of trams open?"


def find(page: Page, text: str) -> None:
    """By the box in the header."""
    if WAY == "without-scripts":
        page.get_by_role("searchbox").first.focus()
    else:
        page.keyboard.press("/")
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def asked(gate: RealGateway, secret: str, question: str, user: str) -> None:
    with gate.client(key=secret) as client:
        client.chat.completions.create(
            model="demo", user=user, messages=[{"role": "user", "content": question}]
        )


@pytest.mark.slow
def test_an_end_user_is_forgotten_nothing_of_his_is_found_and_it_is_stated(
    tmp_path: Path, profile: Callable[..., BrowserContext]
) -> None:
    engines = {"small": Engine("To the office."), "large": Engine("To the accounts department.")}
    with real_gateway(tmp_path, CONFIG, engines=engines) as gate:
        key, secret = gate.store.keys.create("acme", "web")
        wait_for(
            lambda: gate.ask("Hello?", key=secret, headers={"Cache-Control": "no-store"}).text,
            "the key known",
        )
        for user, question in (("qwertz", HIS), ("qwertz", HIS), ("ben", OTHERS)):
            asked(gate, secret, question, user)
            gate.settle()
        page = gate.signed_in(profile())

        # He is found by his name; and what there is of him.
        find(page, "qwertz")
        expect(page.locator("table.requests tbody tr")).to_have_count(2)
        page.get_by_role("link", name="Forget this end user…").click()
        expect(page.get_by_role("heading", name="Forget end user qwertz")).to_be_visible()
        would_go = page.locator("dl.facts")
        for kind in ("Examples", "Stored answers", "Texts of requests"):
            expect(would_go).to_contain_text(kind)
        page.get_by_role("button", name="Forget").click()

        # The statement: whose, when, by whom, what, and what is not reached; it can be loaded again.
        statement = page.locator("#statement")
        expect(statement).to_contain_text("end user qwertz, of tenant acme")
        expect(statement).to_contain_text("UTC")
        expect(statement).to_contain_text("Byann")
        expect(statement).to_contain_text("0 rows of all these kinds")
        expect(statement).to_contain_text("Rows of the request log: 2 stay")
        expect(statement).to_contain_text("Not reached: backups")
        page.reload()
        expect(statement).to_contain_text("end user qwertz")
        page.emulate_media(media="print")
        expect(page.locator("header.bar")).to_be_hidden()
        expect(statement).to_be_visible()
        page.emulate_media(media="screen")

        # Nothing of him: by name, by words, among examples, sessions, in the cache; another one's is there.
        for words in ("qwertz", '"invoice of Qwertz"'):
            find(page, words)
            expect(page.get_by_text("None found")).to_be_visible()
        tenant = f"tenant={key.tenant}"
        for path in ("examples", "cache", "sessions", "requests"):
            page.goto(f"{gate.admin_url}/{path}?{tenant}")
            expect(page.locator("main")).not_to_contain_text("Qwertz")
        page.goto(f"{gate.admin_url}/examples?{tenant}")
        expect(page.locator("main")).to_contain_text("museum of trams")
        asked_before = len(engines["large"].asked)
        asked(gate, secret, OTHERS, "ben")
        assert len(engines["large"].asked) == asked_before, "another one's answer is still in the cache"
        asked(gate, secret, HIS, "")
        assert len(engines["large"].asked) == asked_before + 1, "his is not"

        # Later: the audit log has the statement, without his name.
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Audit").click()
        row = page.get_by_role("row").filter(has_text="a user")
        expect(row).to_contain_text("ann")
        row.get_by_role("link", name="Statement").click()
        expect(statement).to_contain_text("an end user, whose name is not kept, of tenant acme")
        expect(statement).to_contain_text("0 rows of all these kinds")
        expect(page.locator("main")).not_to_contain_text("qwertz")
