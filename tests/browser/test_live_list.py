"""The live list of requests in a real Chromium: what somebody aims at stays where it is while requests come."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.stage import Stage

OpenPage = Callable[..., Page]
COUNT = re.compile(r"^\d+\+? new$")


@contextmanager
def traffic(staged: Stage, per_s: float) -> Iterator[None]:
    """Requests at a steady rate, until the end."""
    stop = threading.Event()

    def ask() -> None:
        began = time.monotonic()
        for number in itertools.count():
            if stop.wait(max(0.0, began + number / per_s - time.monotonic())):
                return
            staged.ask(f"Live question {number}", model="hostile")

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def live(page: Page, staged: Stage) -> Locator:
    """The list, live; gives the button that counts what is new."""
    page.goto(staged.admin_url + "/requests")
    expect(page.locator("#live-state")).to_have_text("live")
    return page.get_by_role("button", name=COUNT)


def first_row(page: Page) -> str:
    return str(page.locator("[data-row]").first.get_attribute("data-row"))


def test_the_list_pauses_by_button_focus_and_selection_and_counts_what_is_new(
    staged: Stage, as_role: OpenPage
) -> None:
    page = as_role("viewer-content")
    new = live(page, staged)
    page.get_by_role("button", name="Pause").click()
    before = first_row(page)
    staged.ask("While the list is paused?", model="hostile")
    expect(new).to_have_text("1 new")
    assert first_row(page) == before
    new.click()
    expect(page.locator("[data-row]").first).to_contain_text("While the list is paused?")
    page.get_by_role("button", name="Resume").click()
    page.locator("a.row").nth(3).focus()
    expect(page.get_by_text("while the list has the focus")).to_be_visible()
    staged.ask("While the list has the focus?", model="hostile")
    expect(new).to_have_text("1 new")
    page.evaluate(
        "document.activeElement.blur(); getSelection().selectAllChildren(document.querySelector('td.clip'))"
    )
    expect(page.get_by_text("while text is selected")).to_be_visible()
    staged.ask("While something is selected?", model="hostile")
    expect(new).to_have_text("2 new")
    page.evaluate("getSelection().removeAllRanges()")
    expect(page.locator("[data-row]").first).to_contain_text("While something is selected?")


@pytest.mark.slow
def test_a_whole_row_is_a_link_and_leads_to_its_neighbours(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("viewer-content")
    page.goto(staged.admin_url + "/requests?model=demo")
    row = page.locator("[data-row]").nth(1)
    id = row.get_attribute("data-row")
    # The link lies over the whole row, which Playwright takes for something in the way.
    row.locator("td.num").last.click(force=True)
    expect(page).to_have_url(re.compile(f"/requests/{id}"))
    page.get_by_role("link", name="Newer").click()
    expect(page).not_to_have_url(re.compile(f"/requests/{id}"))
    page.get_by_role("link", name="Older").click()
    expect(page).to_have_url(re.compile(f"/requests/{id}.*model=demo"))


@pytest.mark.slow
def test_the_row_that_was_aimed_at_is_the_row_that_opens(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("viewer-content", viewport={"width": 1280, "height": 1100})
    with traffic(staged, 20):
        for trial in range(20):
            live(page, staged)
            # Somebody's hand is on the mouse, somewhere else on the page.
            page.mouse.move(5, 200 + trial)
            row = page.locator("[data-row]").nth(2 + trial % 8)
            # Any cell but that of the engine, whose link leads to the engine.
            cell = row.locator("td").nth((0, 1, 3, 4, 5)[trial % 5])
            id, box = row.get_attribute("data-row"), cell.bounding_box()
            assert box is not None
            x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            page.mouse.move(x, y, steps=8)
            expect(page.get_by_role("button", name=re.compile(r"^[1-9]\d*\+? new$"))).to_be_visible()
            page.wait_for_timeout(500)
            page.mouse.click(x, y)
            expect(page, f"trial {trial}").to_have_url(re.compile(f"/requests/{id}"))
