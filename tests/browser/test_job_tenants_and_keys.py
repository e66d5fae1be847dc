"""Two jobs of an operator, on pages alone: a key with limits, from making it to revoking it; and deleting a tenant."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.real_gateway import Engine, RealGateway, real_gateway
from tests.patience import wait_for

PRICE = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 1.0}
CONFIG: dict[str, Any] = {
    "engines": {"large": {"price": PRICE}},
    "models": {
        "demo": {"engines": ["large"], "policy": "fixed"},
        "other": {"engines": ["large"], "policy": "fixed"},
    },
}


def refused(gate: RealGateway, secret: str, model: str = "demo", text: str = "Anything?") -> int:
    """The status of a refused request; 0 where it is answered."""
    try:
        gate.ask(text, model=model, key=secret, headers={"Cache-Control": "no-store"})
    except openai.APIStatusError as error:
        return error.status_code
    return 0


def refused_by_each(gate: RealGateway, secret: str) -> set[int]:
    found = set()
    for worker in gate.workers:
        with gate.client(worker, key=secret) as client:
            status = 0
            try:
                client.chat.completions.create(model="demo", messages=[{"role": "user", "content": "Again?"}])
            except openai.APIStatusError as error:
                status = error.status_code
            found.add(status)
    return found


def secret_on(page: Page) -> str:
    return page.locator("#secret").inner_text().strip()


@pytest.mark.slow
def test_a_key_with_limits_is_made_changed_rotated_and_revoked(
    tmp_path: Path, profile: Callable[..., BrowserContext]
) -> None:
    with real_gateway(tmp_path, CONFIG, engines={"large": Engine("Forty-two, of course.")}) as gate:
        page = gate.signed_in(profile())
        page.on("dialog", lambda dialog: dialog.accept())
        page.goto(gate.admin_url + "/tenants")
        new_key = page.locator("#new-key")
        new_key.get_by_label("Tenant").fill("acme")
        new_key.get_by_label("Key name").fill("billing")
        new_key.get_by_text("Limits and expiry").click()
        new_key.get_by_label("Models, one per line").first.fill("demo")
        new_key.get_by_label("Budget per day, $").first.fill("5")
        new_key.get_by_label("Requests per minute").first.fill("many")
        new_key.get_by_label("Expires").fill("2031-01-31T12:00:00")
        page.get_by_role("button", name="Make a key").click()
        expect(page.locator("#field-error")).to_contain_text("requests_per_minute is 'many'")
        expect(new_key.get_by_label("Models, one per line").first).to_have_value("demo")
        new_key.get_by_label("Requests per minute").first.fill("1000")
        page.get_by_role("button", name="Make a key").click()
        secret = secret_on(page)
        assert secret.startswith("us-")

        def takes_it() -> bool:
            return refused(gate, secret) == 0

        wait_for(takes_it, "the key is taken", log=gate.gateway.log)
        assert refused(gate, secret, "other") == 403, "not among its models"
        page.get_by_role("link", name="Done").click()
        expect(page.get_by_role("heading", name="Key billing")).to_be_visible()
        expect(page.locator("#use")).to_contain_text("Budget per day")

        page.get_by_label("Budget per day, $").first.fill("0.000001")
        page.get_by_label("Models, one per line").first.fill("")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.locator("main > .flash")).to_contain_text("Saved: limits")
        wait_for(lambda: refused(gate, secret, "other") == 429, "its budget is spent", log=gate.gateway.log)
        # What a worker has spent is booked every now and then; the page is looked at again by whoever waits.
        use = page.get_by_role("region", name="Limits of this key and their use")

        def is_full() -> bool:
            page.reload()
            return "100" in use.get_by_role("row", name="Budget per day").inner_text().replace("\u202f", " ")

        wait_for(is_full, "use against the limit", log=gate.gateway.log)

        page.get_by_label("Budget per day, $").first.fill("")
        page.get_by_role("button", name="Save", exact=True).click()
        wait_for(takes_it, "without the budget it is taken", log=gate.gateway.log)
        page.get_by_label("Hours the old secret is still taken").fill("0")
        page.get_by_role("button", name="Rotate").click()
        other = secret_on(page)
        assert other != secret
        wait_for(
            lambda: refused_by_each(gate, secret) == {401}, "the old one is refused", log=gate.gateway.log
        )
        assert refused_by_each(gate, other) == {0}
        page.get_by_role("link", name="Done").click()
        page.get_by_role("button", name="Revoke").click()
        expect(page.locator("main > .flash")).to_contain_text("is revoked")
        wait_for(lambda: refused_by_each(gate, other) == {401}, "revoked", log=gate.gateway.log)
        page.goto(gate.admin_url + "/audit?action=keys")
        changed = page.get_by_role("row").filter(has_text="keys/replace").first
        expect(changed).to_contain_text("limits:")
        assert secret not in page.content() and other not in page.content()


@pytest.mark.slow
def test_a_tenant_is_deleted_without_scripts_and_no_total_changes(
    tmp_path: Path, profile: Callable[..., BrowserContext]
) -> None:
    with real_gateway(tmp_path, CONFIG, engines={"large": Engine("Forty-two, of course.")}) as gate:
        page = gate.signed_in(profile(java_script_enabled=False))

        def key_for(tenant: str) -> str:
            page.goto(gate.admin_url + "/tenants#new-key")
            page.locator("#new-key").get_by_label("Tenant").fill(tenant)
            page.get_by_role("button", name="Make a key").click()
            return secret_on(page)

        acme, umbrella = key_for("acme"), key_for("umbrella")
        for secret in (acme, umbrella):
            wait_for(lambda secret=secret: refused(gate, secret) == 0, "taken", log=gate.gateway.log)
            gate.ask("What is the answer?", key=secret)
        gate.settle()

        def totals() -> list[str]:
            page.goto(gate.admin_url + "/overview")
            figures = page.locator(".figure").filter(has_text="Requests").first.locator("b")
            return [figures.inner_text(), *page.locator("section:has(h2:text('Money')) dd").all_inner_texts()]

        before = totals()
        page.goto(gate.admin_url + "/tenants?q=acme")
        page.get_by_role("link", name="acme", exact=True).click()
        page.get_by_role("link", name="Delete this tenant…").click()
        expect(page.get_by_text("Keys that would be revoked")).to_be_visible()
        expect(page.locator("main")).to_contain_text("Rows of the request log")
        page.get_by_label("Type acme").fill("Acme")
        delete = page.get_by_role("button", name="Delete the tenant and everything of it")
        delete.click()
        expect(page.locator("#field-error")).to_contain_text("Nothing was deleted")
        assert refused_by_each(gate, acme) == {0}
        tenant = gate.store.keys.lookup(acme)
        assert tenant is not None
        page.get_by_label("Type acme").fill("acme")
        page.get_by_label("Type acme").press("Enter")
        expect(page.locator("main > .flash")).to_contain_text("acme is deleted: 1 keys revoked")
        assert refused_by_each(gate, acme) == {401} and refused_by_each(gate, umbrella) == {0}
        assert not gate.store.held_of(tenant.tenant).anything
        expect(page.locator("#statement")).to_contain_text("tenant acme")
        page.locator(".crumbs").get_by_role("link", name="Tenants and keys").click()
        expect(page.get_by_role("link", name="Deleted tenants")).to_be_visible()
        expect(page.get_by_role("link", name="acme", exact=True)).to_have_count(0)
        page.goto(f"{gate.admin_url}/keys/{tenant.id}")
        expect(page.locator("main")).to_contain_text("revoked")
        page.goto(gate.admin_url + "/audit?action=delete")
        expect(page.get_by_role("row").filter(has_text=tenant.tenant).first).to_contain_text("keys: 1")
        gate.settle()
        after = totals()
        with suppress(ValueError):
            # Two requests of the other tenant came in between.
            after[0] = str(int(after[0]) - 4)
        assert after[0] == before[0], (before, after)
