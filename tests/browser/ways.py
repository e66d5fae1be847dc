"""How a test's page is used: by pointer, by the keyboard alone, or without scripts; `BROWSE_BY` says which.

The tests of the operators' jobs hold in each of the three: `make test-jobs`. Without scripts a page changes when it is
loaded again, so what a test expects of it is looked for on it and then on the page loaded anew, as a person would.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Literal, cast, get_args

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.patience import PATIENCE_S

Way = Literal["pointer", "keyboard", "without-scripts"]
WAY = cast(Way, os.environ.get("BROWSE_BY", "pointer"))
if WAY not in get_args(Way):
    raise ValueError(f"BROWSE_BY={WAY}: {', '.join(get_args(Way))} are right")

SCRIPTED = WAY != "without-scripts"
_AT_ONCE_MS, _PAUSE_MS = 1000.0, 500.0

_CONTROL = """e => {
    if (e.control) e = e.control;
    e.focus();
    return [document.activeElement === e, e.tabIndex, e.type || ''];
}"""


def by_keyboard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have whatever a test clicks, checks or selects be focused and given keys instead."""

    def focus(locator: Locator) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            locator.wait_for()
            focused, tab_index, kind = locator.evaluate(_CONTROL)
            if focused and tab_index >= 0:
                return str(kind)
            # An update of the page may have put another in its place just now.
            assert time.monotonic() < deadline, f"no key reaches {locator}"
            time.sleep(0.05)

    def click(locator: Locator, **_: Any) -> None:
        kind = focus(locator)
        locator.page.keyboard.press("Space" if kind in ("checkbox", "radio") else "Enter")

    def set_checked(locator: Locator, checked: bool, **_: Any) -> None:
        if locator.is_checked() != checked:
            focus(locator)
            locator.page.keyboard.press("Space")
        assert locator.is_checked() == checked

    def select(locator: Locator, value: str | None = None, *, label: str | None = None, **_: Any) -> None:
        focus(locator)
        # Typing the beginning of an option selects it.
        said = label or locator.locator(f"option[value='{value}']").inner_text()
        locator.page.keyboard.type(said.strip())

    monkeypatch.setattr(Locator, "click", click)
    monkeypatch.setattr(Locator, "check", lambda locator, **_: set_checked(locator, True))
    monkeypatch.setattr(Locator, "uncheck", lambda locator, **_: set_checked(locator, False))
    monkeypatch.setattr(Locator, "set_checked", set_checked)
    monkeypatch.setattr(Locator, "select_option", select)


def by_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have whatever a test expects of a page be looked for on it as it is, and then on the page loaded again."""
    looked_for: Callable[..., Any] = type(expect).__call__

    def reloading(self: Any, actual: Any, message: str | None = None) -> Any:
        found = looked_for(self, actual, message)
        return _Reloading(found, actual if isinstance(actual, Page) else actual.page)

    monkeypatch.setattr(type(expect), "__call__", reloading)


class _Reloading:
    """Assertions that load the page again until they hold, as long as they would have waited."""

    def __init__(self, assertions: Any, page: Page) -> None:
        self._assertions, self._page = assertions, page

    def __getattr__(self, name: str) -> Callable[..., None]:
        assertion = getattr(self._assertions, name)

        def holds(*given: Any, timeout: float = 1000 * PATIENCE_S, **named: Any) -> None:
            end_s = time.monotonic() + timeout / 1000
            while True:
                try:
                    assertion(*given, timeout=_AT_ONCE_MS, **named)
                    return
                except AssertionError:
                    if time.monotonic() > end_s:
                        raise
                self._page.wait_for_timeout(_PAUSE_MS)
                self._page.goto(self._page.url)

        return holds
