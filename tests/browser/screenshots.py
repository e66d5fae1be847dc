"""Pictures of every admin page in both themes, and as on a phone: `make screenshots`. They are looked at, not kept."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import CHROMIUM, FLAGS
from tests.browser.stage import Stage, stage
from tests.browser.test_pages import paths

_SETTLE_MS = 800
VIEWS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 800}},
}


def take(staged: Stage, page: Page, view: str, folder: Path) -> int:
    """Every page once; gives how many pictures that made."""
    taken = 0
    for path in paths(staged, page):
        page.goto(staged.admin_url + path, wait_until="load")
        page.wait_for_timeout(_SETTLE_MS)
        name = re.sub(r"/[0-9a-f]{8,}|/\d+", "/one", path).strip("/")
        page.screenshot(path=folder / f"{re.sub(r'[^a-z-]+', '_', name)}.{view}.png", full_page=True)
        taken += 1
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
            for view, look in VIEWS.items():
                context = browser.new_context(**look)  # type: ignore[arg-type]
                page = context.new_page()
                page.goto(staged.admin_url + "/sign-in")
                page.screenshot(path=options.out / f"sign-in.{view}.png")
                context.add_cookies([staged.cookie("operator")])  # type: ignore[list-item]
                print(f"{take(staged, page, view, options.out)} pages, {view}: {options.out}")
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
