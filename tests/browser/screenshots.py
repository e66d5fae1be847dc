"""Pictures of every admin page in both themes, and as on a phone: `make screenshots`. They are looked at, not kept.

Each page once as it is, and what is only there after something was done: a map, versions of what was learnt, a request with
examples, figures being computed, and what every form answers with (`AFTER`). One page is not among them: `signed_in.html`,
which an identity provider's browser sees for a moment.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Page, sync_playwright

from admin.pages import PAGES
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.browser.stage import PASSWORD, Stage, stage
from tests.browser.test_pages import paths

_LOADED_S = 60.0
_DRAWN = "[...document.querySelectorAll('[data-chart]')].every((box) => box.querySelector('.main-svg'))"
_COMPUTED = "!document.querySelector('[data-unfinished]')"
_GOES_ON = ("/runs/",)
"""Pages of what is under way: unfinished for as long as that lasts."""
VIEWS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 800}},
}


def until(page: Page, script: str) -> None:
    """Wait until it is true in the page. (Playwright's own way compiles code in the page, which our policy forbids.)"""
    end = time.monotonic() + _LOADED_S
    while not page.evaluate(script):
        if time.monotonic() > end:
            sys.exit(f"{page.url}: never was {script}")
        page.wait_for_timeout(50)


def prepare(staged: Stage, page: Page) -> None:
    """Do what leaves something to look at: sign in, draw the map, drain an engine, change a routing setting."""
    page.goto(staged.admin_url + "/sign-in")
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url("**/overview")
    page.goto(staged.admin_url + "/examples-map")
    page.get_by_role("button", name="Draw it").click()
    page.wait_for_selector("#examples-map .main-svg", timeout=1000 * _LOADED_S)
    page.goto(staged.admin_url + "/router/simulate?model=demo&preference=0.25&max_examples=2")
    until(page, _COMPUTED)
    page.get_by_role("link", name="Change the settings…").click()
    page.get_by_role("button", name="Change", exact=True).click()
    page.wait_for_selector("main > .flash")
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(staged.admin_url + "/engines")
    large = page.get_by_role("region", name="large")
    large.get_by_role("button", name="Test", exact=True).click()
    page.wait_for_selector("main > .flash")
    large.get_by_text("Drain large").click()
    large.get_by_label("Reason").fill("the host is being replaced")
    large.get_by_role("button", name="Drain", exact=True).click()
    page.wait_for_selector("main > .flash")
    first = Ways(page, staged.admin_url, "first")
    _new_key(first)
    _statement(first)


def further(staged: Stage, page: Page) -> dict[str, str]:
    """Name of the picture to path: things that are interesting to look at, not only the newest."""
    found = {
        "examples-map_by-gain": "/examples-map?colour=gain",
        "requests_none": "/requests?q=nothingislikethis",
        "requests_more-filters": "/requests?reason=familiar",
        "examples_near": "/examples?near=Which+harbour+does+it+sail+from",
        "overview_week": "/overview?span=week",
        "find_words": "/find?q=harbour",
    }
    for name, section in (("requests_with-examples", "/requests"), ("examples_used", "/examples")):
        page.goto(
            staged.admin_url + section + {"/requests": "?way=few_shot", "/examples": "?sort=uses"}[section]
        )
        found[name] = str(page.locator(f"main a[href^='{section}/']").first.get_attribute("href"))
    return found


class Ways(NamedTuple):
    """A page signed in, and what it is pictured for."""

    page: Page
    url: str
    view: str

    def to(self, path: str) -> Page:
        """The page, gone to a path."""
        self.page.goto(self.url + path)
        return self.page

    def first(self, listed: str, section: str) -> Page:
        """The page of the first thing in a list."""
        self.to(listed)
        return self.to(str(self.page.locator(f"main a[href^='{section}/']").first.get_attribute("href")))


def _press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).first.click()
    page.wait_for_load_state("load")


def _cache_purge(at: Ways) -> None:
    _press(at.to("/cache"), "Purge everything…")


def _datasets_taken(at: Ways) -> None:
    said = [{"role": "user", "content": "Anything?"}, {"role": "assistant", "content": "Yes, all of it."}]
    lines = [json.dumps({"messages": said}), "not JSON"]
    page = at.to("/datasets")
    page.locator("input[type=file]").set_input_files(
        {"name": "rows.jsonl", "mimeType": "application/jsonl", "buffer": "\n".join(lines).encode()}
    )
    _press(page, "Import")


def _example_delete(at: Ways) -> None:
    _press(at.first("/examples?sort=uses", "/examples"), "Delete…")


def _examples_delete(at: Ways) -> None:
    page = at.to("/examples")
    for number in range(3):
        page.locator("main table input[type=checkbox][name]").nth(number).check()
    _press(page, "Delete…")


def _new_key(at: Ways) -> None:
    page = at.to("/tenants")
    new_key = page.locator("#new-key")
    new_key.get_by_label("Tenant").fill("acme")
    new_key.get_by_label("Key name").fill(f"billing, {at.view}")
    _press(page, "Make a key")


def _new_password(at: Ways) -> None:
    page = at.to("/accounts")
    page.locator("form[action='/accounts/add']").get_by_label("Name").fill(f"pictured-{at.view}")
    _press(page, "Make account")


def _playground_answers(at: Ways) -> None:
    page = at.to("/playground")
    page.locator("textarea[name=prompt]").fill("Anything?")
    _press(page, "Ask both")


def _problem(at: Ways) -> None:
    at.to("/requests/0000")


def _replay_plan(at: Ways) -> None:
    _press(at.to("/replay"), "Plan")


def _request_asked(at: Ways) -> None:
    page = at.first("/requests?way=few_shot", "/requests")
    page.get_by_text("Ask another engine").click()
    _press(page, "Ask")


def _statement(at: Ways) -> None:
    page = at.to("/forget")
    page.get_by_label("Tenant").select_option(index=0)
    page.get_by_label("End user, as clients name them").fill(f"pictured-{at.view}")
    _press(page, "Look what there is")
    _press(page, "Forget")


def _settings_check(at: Ways) -> None:
    page = at.to("/settings")
    page.locator("textarea[name=text]").fill("judging: {engine: nobody}\nlisten: {port: 1}")
    _press(page, "Check")


AFTER: dict[str, Callable[[Ways], None]] = {
    "cache_purge": _cache_purge,
    "datasets_taken": _datasets_taken,
    "example_delete": _example_delete,
    "examples_delete": _examples_delete,
    "new_key": _new_key,
    "new_password": _new_password,
    "playground_answers": _playground_answers,
    "problem": _problem,
    "replay_plan": _replay_plan,
    "request_asked": _request_asked,
    "settings_check": _settings_check,
    "statement": _statement,
}
"""Template of a page that answers a form, or says that something is not there; and how to come to it."""


def _is_of(path: str, pattern: str) -> bool:
    return re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(pattern)), path.partition("?")[0]) is not None


def take(staged: Stage, page: Page, view: str, folder: Path) -> int:
    """Every page once; gives how many pictures that made."""
    taken = 0

    def picture(name: str, *, whole: bool = True) -> None:
        nonlocal taken
        if whole:
            until(page, _COMPUTED)
        until(page, _DRAWN)
        page.screenshot(path=folder / f"{name}.{view}.png", full_page=True)
        taken += 1

    listed = paths(staged, page)
    if left_out := [each.path for each in PAGES if not any(_is_of(path, each.path) for path in listed)]:
        sys.exit(f"not among the pictures: {', '.join(left_out)}")
    for path in listed:
        page.goto(staged.admin_url + path, wait_until="load")
        name = re.sub(r"/(key_)?[0-9a-f]{8,}|/\d+", "/one", path).strip("/")
        picture(re.sub(r"[^a-z-]+", "_", name), whole=not path.startswith(_GOES_ON))
    for name, path in further(staged, page).items():
        page.goto(staged.admin_url + path, wait_until="load")
        picture(name)
    page.goto(f"{staged.admin_url}/router/simulate?model=demo&preference=0.{len(view)}1")
    picture("router_simulate_computing", whole=False)
    for template, reach in AFTER.items():
        reach(Ways(page, staged.admin_url, view))
        picture(template)
    return taken


def main() -> None:
    """Write the pictures to a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/screenshots"), help="folder to write to")
    parser.add_argument("--requests", type=int, default=200, help="how much traffic to make before")
    options = parser.parse_args()
    if CHROMIUM is None:
        sys.exit("no Chromium here: apt-get install chromium")
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="understudy-") as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        with stage(Path(folder), options.requests) as staged:
            prepare(staged, browser.new_page())
            for view, look in VIEWS.items():
                context = browser.new_context(**look)  # type: ignore[arg-type]
                page = context.new_page()
                page.goto(staged.admin_url + "/sign-in")
                page.screenshot(path=options.out / f"sign-in.{view}.png")
                context.add_cookies([staged.cookie("operator")])  # type: ignore[list-item]
                print(f"{take(staged, page, view, options.out)} pictures, {view}: {options.out}")
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
