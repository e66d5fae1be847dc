"""A real Chromium in front of a real gateway: one gateway for all, a browser per file, a fresh profile for every test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.stage import Stage, stage
from tests.browser.ways import SCRIPTED, WAY, by_keyboard, by_reload
from tests.patience import PATIENCE_S

# A loaded machine may take a while to draw a chart.
PATIENCE_MS = 1000 * PATIENCE_S
expect.set_options(timeout=PATIENCE_MS)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
FLAGS = [
    # A container runs as root, where Chromium has no sandbox.
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser/" in item.path.as_posix():
            item.add_marker("browser")
            # A loaded machine takes its time to start a browser.
            item.add_marker(pytest.mark.timeout(300))
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="no Chromium here: apt-get install chromium"))


@pytest.fixture(scope="session")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage")) as made:
        yield made


# Per file, not per session: while it is open, Playwright's own event loop runs in this thread, and no other could.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def profile(browser: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """Makes browser profiles; everything is closed with the test."""
    made: list[BrowserContext] = []

    def make(**options: object) -> BrowserContext:
        if not SCRIPTED:
            options = {"java_script_enabled": False, **options}
        made.append(browser.new_context(**options))  # type: ignore[arg-type]
        made[-1].set_default_timeout(PATIENCE_MS)
        return made[-1]

    yield make
    for context in made:
        context.close()


@pytest.fixture(autouse=True)
def way(monkeypatch: pytest.MonkeyPatch) -> None:
    """See tests/browser/ways.py."""
    if WAY == "keyboard":
        by_keyboard(monkeypatch)
    elif not SCRIPTED:
        by_reload(monkeypatch)


@pytest.fixture
def as_role(staged: Stage, profile: Callable[..., BrowserContext]) -> Callable[..., Page]:
    """Opens a page, signed in with a role; further options are the profile's."""

    def open_page(role: str, **options: object) -> Page:
        context = profile(**options)
        context.add_cookies([staged.cookie(role)])  # type: ignore[list-item]
        return context.new_page()

    return open_page
