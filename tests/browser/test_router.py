"""The router in a real Chromium: what other settings would bring is simulated, changed, and undone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.stage import Stage

OpenPage = Callable[..., Page]


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
