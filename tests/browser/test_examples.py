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
