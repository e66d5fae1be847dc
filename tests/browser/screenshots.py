"""Pictures of every admin page in both themes, and as on a phone: `make screenshots`. They are looked at, not kept.

Each page once as it is, and what is only there after something was done: a map, versions of what was learnt, a request with
examples, figures being computed, a check of settings, what is not there.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import CHROMIUM, FLAGS
from tests.browser.stage import PASSWORD, Stage, stage
from tests.browser.test_pages import paths

_LOADED_S = 60.0
_DRAWN = "[...document.querySelectorAll('[data-chart]')].every((box) => box.querySelector('.main-svg'))"
_COMPUTED = "!document.querySelector('[data-unfinished]')"
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
    page.get_by_role("button", name="Test", exact=True).nth(1).click()
    page.wait_for_selector("main > .flash")
    page.get_by_text("Drain large").click()
    page.get_by_label("Reason").nth(1).fill("the host is being replaced")
    page.get_by_role("button", name="Drain").nth(1).click()
    page.wait_for_selector("main > .flash")


def further(staged: Stage, page: Page) -> dict[str, str]:
    """Name of the picture to path: things that are interesting to look at, not only the newest."""
    found = {
        "examples-map_by-gain": "/examples-map?colour=gain",
        "requests_none": "/requests?q=nothingislikethis",
        "requests_more-filters": "/requests?reason=familiar",
        "examples_near": "/examples?near=Which+harbour+does+it+sail+from",
        "overview_week": "/overview?span=week",
        "not-there": "/requests/0000",
    }
    for name, section in (("requests_with-examples", "/requests"), ("examples_used", "/examples")):
        page.goto(
            staged.admin_url + section + {"/requests": "?way=few_shot", "/examples": "?sort=uses"}[section]
        )
        found[name] = str(page.locator(f"main a[href^='{section}/']").first.get_attribute("href"))
    return found


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

    for path in paths(staged, page):
        page.goto(staged.admin_url + path, wait_until="load")
        name = re.sub(r"/[0-9a-f]{8,}|/\d+", "/one", path).strip("/")
        picture(re.sub(r"[^a-z-]+", "_", name))
    for name, path in further(staged, page).items():
        page.goto(staged.admin_url + path, wait_until="load")
        picture(name)
    page.goto(f"{staged.admin_url}/router/simulate?model=demo&preference=0.{len(view)}1")
    picture("router_simulate_computing", whole=False)
    page.goto(staged.admin_url + "/settings")
    page.locator("textarea[name=text]").fill("judging: {engine: nobody}\nlisten: {port: 1}")
    page.get_by_role("button", name="Check").click()
    picture("settings_checked")
    page.goto(staged.admin_url + "/replay")
    page.get_by_role("button", name="Plan").click()
    picture("replay_planned")
    page.goto(staged.admin_url + "/examples?sort=uses")
    page.locator("main a[href^='/examples/']").first.click()
    page.get_by_role("button", name="Delete…").click()
    picture("examples_delete")
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
