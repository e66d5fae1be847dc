"""The router in a real Chromium: what other dials would have brought is looked at, applied, and taken back."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.stage import Stage

OpenPage = Callable[..., Page]


def test_dials_are_looked_at_applied_and_taken_back(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("operator")
    page.goto(staged.admin_url + "/router?model=demo")
    expect(page.locator("#who .main-svg").first).to_be_visible()
    page.get_by_role("link", name="What if they stood otherwise?").click()
    page.get_by_label("Preference").fill("0.25")
    with page.expect_navigation() as gone:
        page.get_by_role("button", name="Look").click()
    answer = gone.value
    assert answer is not None and "Being computed" in answer.text(), "the page does not wait for its figures"
    page.evaluate("window.stays = true")
    expect(page.locator("#frontier .main-svg").first).to_be_visible()
    assert page.evaluate("window.stays"), "the chart came by itself"
    expect(page.locator("#computing")).to_have_count(0)
    expect(page.locator("tr.chosen").first).to_be_visible()
    page.get_by_role("button", name="Apply these dials").click()
    expect(page.locator("main > .flash")).to_contain_text("In force")
    expect(page.locator("#dials tr.chosen")).to_contain_text("preference")
    staged.gateway.wait_for_log("dials_turned")
    page.get_by_role("button", name="Take the last turn back").click()
    expect(page.locator("main > .flash")).to_contain_text("Taken back")
    expect(page.locator("#dials tr.chosen")).to_have_count(0)
    page.get_by_text("Every turn").click()
    expect(page.locator("#dial-history li").first).to_contain_text("taken back")


def test_without_scripts_the_same_address_shows_the_figures_when_they_are_there(
    staged: Stage, as_role: OpenPage
) -> None:
    page = as_role("viewer", java_script_enabled=False)
    page.goto(staged.admin_url + "/router/what-if?model=demo&preference=0.35")
    expect(page.get_by_role("heading", name="Being computed")).to_be_visible()
    for _ in range(300):
        if page.locator("#computing").count() == 0:
            break
        page.get_by_role("link", name="Look again").click()
    expect(page.get_by_role("heading", name="The figures")).to_be_visible()


def test_a_reader_may_look_and_is_not_offered_to_apply(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("viewer")
    page.goto(staged.admin_url + "/router/what-if?model=demo&preference=0.9")
    expect(page.locator("#frontier .main-svg").first).to_be_visible()
    assert page.get_by_role("button", name="Apply these dials").count() == 0
