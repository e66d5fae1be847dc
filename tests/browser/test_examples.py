"""Examples in a real Chromium: found by likeness, quarantined, edited, deleted after a look, and seen on a map."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.stage import Stage

OpenPage = Callable[..., Page]


def given(staged: Stage, question: str, answer: str) -> None:
    """A right answer, given over the API."""
    staged.post("/examples", {"messages": [{"role": "user", "content": question}], "answer": answer})
    staged.settle()


def test_an_example_is_found_by_what_it_is_like(staged: Stage, as_role: OpenPage) -> None:
    given(staged, "How do I polish the brass of a submarine?", "With lemon and patience.")
    page = as_role("viewer-content")
    page.goto(staged.admin_url + "/examples")
    page.get_by_label("or near to").fill("How does one polish a submarine's brass?")
    page.get_by_role("button", name="Show").click()
    first = page.locator("table.examples tbody tr").first
    expect(first).to_contain_text("submarine")
    assert float(first.locator("td.num").first.inner_text()) > 0.8


@pytest.mark.slow
def test_an_example_is_quarantined_edited_and_deleted_after_a_look(staged: Stage, as_role: OpenPage) -> None:
    given(staged, "Where do the glass otters of Hume sleep?", "In the reeds.")
    page = as_role("operator")
    page.goto(staged.admin_url + "/examples?q=glass+otters")
    page.locator("table.examples tbody a").first.click()
    flash = page.locator("main > .flash")
    page.get_by_role("button", name="Quarantine").click()
    expect(flash).to_contain_text("Quarantined")
    expect(page.locator(".badge.bad")).to_have_text("quarantined")
    page.get_by_role("button", name="Release").click()
    expect(flash).to_contain_text("Released")
    page.get_by_role("button", name="Pin").click()
    expect(flash).to_contain_text("Pinned")
    page.get_by_text("Edit its texts").click()
    page.locator("textarea[name=answer]").fill("In the bell tower, <b>all</b> of them.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#answer")).to_have_text("In the bell tower, <b>all</b> of them.")
    page.get_by_role("button", name="Delete…").click()
    expect(page.get_by_text("Nothing is deleted yet", exact=False).first).to_be_visible()
    expect(page.get_by_text("it is pinned")).to_be_visible()
    page.get_by_role("button", name="Delete it").click()
    expect(flash).to_contain_text("Deleted")
    page.goto(staged.admin_url + "/examples?q=glass+otters")
    expect(page.get_by_text("None found")).to_be_visible()


@pytest.mark.slow
def test_the_map_is_drawn_and_a_point_opens_its_example(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("operator")
    page.goto(staged.admin_url + "/examples-map")
    page.get_by_role("button", name="Draw it").click()
    point = page.locator("#examples-map .scatterlayer .point").first
    expect(point).to_be_visible()
    # Where it lies is the map's to say, and may be below the window's edge: there is nothing to click.
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.get_by_role("heading", name="Where it came from")).to_be_visible()
    assert "/examples/" in page.url
