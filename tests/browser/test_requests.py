"""Requests in a real Chromium: they appear by themselves, are found, explained, judged, corrected and asked again."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.stage import HOSTILE, Stage

OpenPage = Callable[..., Page]


def newest(page: Page, staged: Stage, query: str = "") -> None:
    """Open the latest request of a list."""
    page.goto(f"{staged.admin_url}/requests?{query}")
    page.locator("table.requests tbody a").first.click()
    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()


@pytest.mark.slow
def test_a_request_appears_in_the_list_without_loading_it_anew(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("viewer-content")
    page.goto(staged.admin_url + "/requests")
    expect(page.locator("#live-state")).to_have_text("live")
    page.evaluate("window.stays = true")
    staged.ask("How many wheels has the flying tandem of tomorrow?", model="hostile")
    first = page.locator("table.requests tbody tr").first
    expect(first).to_contain_text("flying tandem")
    assert page.evaluate("window.stays")


def test_filters_and_words_narrow_the_list_and_all_brings_it_back(staged: Stage, as_role: OpenPage) -> None:
    staged.ask("Is a zeppelin lighter than its shadow?", model="hostile")
    staged.settle()
    page = as_role("viewer-content")
    page.goto(staged.admin_url + "/requests")
    page.keyboard.press("/")
    page.keyboard.type('zeppelin "its shadow"')
    page.keyboard.press("Enter")
    rows = page.locator("table.requests tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("zeppelin")
    page.get_by_role("link", name="All", exact=True).click()
    expect(rows.nth(5)).to_be_visible()
    page.locator("select[name=engine]").select_option("hostile")
    page.locator("select[name=way]").select_option("direct")
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile("engine=hostile"))
    assert set(page.locator("table.requests tbody td:nth-child(3)").all_inner_texts()) == {
        "hostile\nfor hostile"
    }
    page.get_by_text("More filters").click()
    page.get_by_label("Cost at least").fill("1000000")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("None found")).to_be_visible()


def test_filters_are_saved_under_a_name_that_all_see_and_deleted(staged: Stage, as_role: OpenPage) -> None:
    operator, viewer = as_role("operator"), as_role("viewer")
    operator.goto(staged.admin_url + "/requests?way=direct&within=day")
    operator.get_by_label("Name of these filters").fill("direct ones of today")
    operator.get_by_role("button", name="Save this view").click()
    expect(operator.get_by_text("is saved")).to_be_visible()
    viewer.goto(staged.admin_url + "/requests")
    viewer.get_by_role("link", name="direct ones of today").click()
    expect(viewer.locator("select[name=way]")).to_have_value("direct")
    expect(viewer.locator("select[name=within]")).to_have_value("day")
    expect(viewer.get_by_role("button", name="Delete this view")).to_have_count(0)
    operator.on("dialog", lambda dialog: dialog.accept())
    operator.get_by_role("button", name="Delete this view").click()
    expect(operator.get_by_role("link", name="direct ones of today")).to_have_count(0)


@pytest.mark.slow
def test_a_request_shows_what_was_added_to_it_and_why(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("viewer-content")
    newest(page, staged, "way=few_shot")
    expect(page.locator("#stages .bars rect").first).to_be_visible()
    added = page.locator("li.message.added")
    assert added.count() >= 2
    expect(added.first).to_contain_text("added from")
    expect(page.locator("tr.chosen", has_text="few-shot")).to_contain_text("taken")
    added.first.get_by_role("link").click()
    expect(page.get_by_role("heading", name="Uses, with feedback and evals")).to_be_visible()


@pytest.mark.slow
def test_a_request_leads_to_its_example_its_engine_and_back_and_its_id_can_be_taken_along(
    staged: Stage, as_role: OpenPage
) -> None:
    page = as_role("viewer-content", permissions=["clipboard-read", "clipboard-write"])
    newest(page, staged, "way=few_shot&within=hour")
    request = page.url.rpartition("/")[2].partition("?")[0]
    copier = page.get_by_role("button", name="Copy the decision id")
    # It says so for two seconds, which a busy machine may look past, and news may put another button in its place.
    page.evaluate(
        """new MutationObserver(seen => {
            const said = seen.find(({target}) => target.matches("[data-copy]"));
            if (said) document.body.dataset.said ??= said.target.textContent;
        }).observe(document.body, {childList: true, subtree: true})"""
    )
    copier.click()
    expect(page.locator("body")).to_have_attribute("data-said", "Copied")
    assert page.evaluate("navigator.clipboard.readText()") == request
    when = page.locator("dl.facts time").first
    expect(when).to_contain_text(" ago")
    assert str(when.get_attribute("datetime")).endswith("Z"), "the instant itself is there, too"
    page.locator("li.message.added a").first.click()
    used = page.locator("#used")
    used.locator(f"a[href='/requests/{request}']").click()
    expect(page.get_by_role("heading", name=f"Request {request[:10]}")).to_be_visible()
    page.locator("dl.facts").get_by_role("link", name="small").click()
    card = page.locator("section.card:target")
    expect(card.get_by_role("heading")).to_have_text("small")
    card.locator("dd a").first.click()
    expect(page).to_have_url(re.compile("(?=.*engine=small)(?=.*within=day)"))
    expect(page.locator("table.requests tbody tr").first).to_contain_text("small")


def test_the_figures_of_the_overview_lead_to_the_requests_they_count(
    staged: Stage, as_role: OpenPage
) -> None:
    page = as_role("viewer")
    page.goto(staged.admin_url + "/overview?span=hour")
    figure = page.locator(".figure", has_text="Offloaded")
    figure.get_by_role("link").click()
    assert page.locator("select[name=way]").input_value() == "offloaded"
    assert page.locator("select[name=within]").input_value() == "hour"
    ways = page.locator("table.requests tbody .badge").all_inner_texts()
    assert ways and set(ways) <= {"few-shot", "direct"}


def test_what_was_sent_to_attack_the_reader_is_read_as_text(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("operator")
    newest(page, staged, "q=pwned")
    expect(page.locator("#answer")).to_contain_text(HOSTILE)
    assert page.evaluate("window.pwned") is None
    expect(page.locator("textarea[name=correction]")).to_have_value(f"Answer {HOSTILE}")
    page.locator("summary", has_text="Ask another engine").click()
    page.locator("select[name=engine]").select_option("hostile")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#replayed")).to_contain_text(HOSTILE)
    expect(page.locator("#served")).to_contain_text(HOSTILE)
    assert page.evaluate("window.pwned") is None


@pytest.mark.slow
def test_feedback_and_corrections_are_given_with_a_click(staged: Stage, as_role: OpenPage) -> None:
    asked = staged.ask("Which bird tunes the organ of Lower Thrang?", model="demo")
    staged.settle()
    page = as_role("operator")
    page.goto(f"{staged.admin_url}/requests/{asked['headers']['x-understudy-decision-id']}")
    page.locator("summary", has_text="Give feedback").click()
    page.get_by_label("no", exact=True).check()
    page.get_by_label("Comment").fill("No bird does.")
    page.get_by_role("button", name="Give feedback").click()
    expect(page.locator("main > .flash")).to_contain_text("Feedback kept")
    expect(page.locator("#judgements")).to_contain_text("No bird does.")
    page.locator("summary", has_text="Correct the answer").click()
    page.locator("textarea[name=correction]").fill("The wren does, on Sundays.")
    page.get_by_role("button", name="Correct").click()
    expect(page.locator("main > .flash")).to_contain_text("Corrected")
    page.goto(f"{staged.admin_url}/examples?q=wren+sundays")
    expect(page.locator("table.examples tbody tr")).to_have_count(1)


@pytest.mark.slow
def test_a_reader_is_offered_no_button_that_changes_anything(staged: Stage, as_role: OpenPage) -> None:
    for role in ("viewer", "viewer-content"):
        page = as_role(role)
        newest(page, staged)
        assert page.locator("main form").count() == 0, role
    assert as_role("viewer").request.get(staged.admin_url + "/requests?q=pwned").status == 400
