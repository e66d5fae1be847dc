"""The router in a real Chromium: what other settings would bring is simulated, changed, and undone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.stage import Stage

OpenPage = Callable[..., Page]


@pytest.mark.slow
def test_settings_are_simulated_changed_and_undone(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("operator")
    page.goto(staged.admin_url + "/router?model=demo")
    expect(page.locator("#who .main-svg").first).to_be_visible()
    page.get_by_role("link", name="Simulate other settings").click()
    page.get_by_label("Preference").fill("0.25")
    with page.expect_navigation() as gone:
        page.get_by_role("button", name="Run").click()
    answer = gone.value
    assert answer is not None and "Being computed" in answer.text(), "the page does not wait for its figures"
    page.evaluate("window.stays = true")
    expect(page.locator("#frontier .main-svg").first).to_be_visible()
    assert page.evaluate("window.stays"), "the chart came by itself"
    expect(page.locator("#computing")).to_have_count(0)
    expect(page.locator("#effect .sentence")).to_contain_text("preference 0.25 instead of 0.50")
    page.get_by_role("link", name="Change the settings…").click()
    page.get_by_label("Every tenant").check()
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.locator("main > .flash")).to_contain_text("In force")
    expect(page.locator("#settings tr.chosen")).to_contain_text("preference")
    staged.gateway.wait_for_log("routing_settings_changed")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("main > .flash")).to_contain_text("Undone")
    expect(page.locator("#settings tr.chosen")).to_have_count(0)
    page.get_by_text("Every change").click()
    expect(page.locator("#settings-history li").first).to_contain_text("undone")


def test_without_scripts_the_same_address_shows_the_figures_when_they_are_there(
    staged: Stage, as_role: OpenPage
) -> None:
    page = as_role("viewer", java_script_enabled=False)
    page.goto(staged.admin_url + "/router/simulate?model=demo&preference=0.35")
    expect(page.get_by_role("heading", name="Being computed")).to_be_visible()
    for _ in range(300):
        if page.locator("#computing").count() == 0:
            break
        page.get_by_role("link", name="Refresh").click()
    expect(page.get_by_role("heading", name="The figures")).to_be_visible()


@pytest.mark.slow
def test_a_reader_may_look_and_is_not_offered_to_apply(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("viewer")
    page.goto(staged.admin_url + "/router/simulate?model=demo&preference=0.9")
    expect(page.locator("#frontier .main-svg").first).to_be_visible()
    assert page.get_by_role("link", name="Change the settings…").count() == 0
