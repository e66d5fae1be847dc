"""Replay in a real Chromium, with the real replayer: asked for on the page, watched until it is done, and taken back."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.stage import Stage

OpenPage = Callable[..., Page]
_RUN_MS = 120_000


def answers_were_bad(staged: Stage) -> None:
    """People are not content with what examples brought about: that is what makes replaying them worth while."""
    requests = staged.store.decisions.requests.recent(10_000)
    found = [r.id for r in requests if (r.model, r.outcome, r.engine) == ("demo", "answered", "small")]
    assert found, "some requests were offloaded"
    for id in found:
        staged.post("/feedback", {"decision_id": id, "score": 0.0})


def test_a_run_is_asked_for_watched_to_its_end_and_taken_back(staged: Stage, as_role: OpenPage) -> None:
    answers_were_bad(staged)
    page = as_role("operator")
    steps = page.locator("tbody tr")
    for _ in range(100):
        page.goto(staged.admin_url + "/replay")
        page.get_by_label("Budget in dollars").fill("0.12")
        page.get_by_role("button", name="Plan", exact=True).click()
        expect(page.locator("main > .flash")).to_contain_text("Nothing was asked")
        if steps.count():
            break
        # What examples gained is written now and then.
        page.wait_for_timeout(200)
    assert steps.count() > 0, "there is something to better"
    page.goto(staged.admin_url + "/replay")
    page.get_by_label("Budget in dollars").fill("0.12")
    page.get_by_role("button", name="Run now").click()
    expect(page.locator("main > .flash")).to_contain_text("is wanted")
    page.evaluate("window.stays = true")
    state = page.locator("#news .badge").first
    expect(state).to_have_text("done", timeout=_RUN_MS)
    assert page.evaluate("window.stays"), "its end was told to the open page"
    run_id = page.url.rpartition("/")[2]
    spent = page.locator("dl.facts dd", has_text="of $0.120").inner_text()
    dollars = float(re.match(r"\$([\d.]+)", spent)[1])  # type: ignore[index]
    assert 0.0 < dollars <= 0.12
    expect(page.get_by_role("region", name="What was asked").locator("tbody tr").first).to_be_visible()
    done = page.get_by_role("region", name="Steps").locator("tbody tr")
    assert done.filter(has_text="done").count() > 0
    page.goto(staged.admin_url + "/replay")
    listed = page.locator("tbody tr", has=page.get_by_role("link", name=f"Run {run_id}", exact=True))
    expect(listed).to_contain_text("done")
    listed.get_by_role("link").click()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Revert").click()
    expect(state).to_have_text("reverted", timeout=_RUN_MS)
