"""How a test's page is used: by pointer, by the keyboard alone, or without scripts; `BROWSE_BY` says which.

The tests of the operators' jobs hold in each of the three: `make test-jobs`. Without scripts a page changes when it is
loaded again: tests that wait for it to change by itself are skipped then.
"""

from __future__ import annotations

import os
from typing import Any, Literal, cast, get_args

import pytest
from playwright.sync_api import Locator

Way = Literal["pointer", "keyboard", "without-scripts"]
WAY = cast(Way, os.environ.get("BROWSE_BY", "pointer"))
if WAY not in get_args(Way):
    raise ValueError(f"BROWSE_BY={WAY}: {', '.join(get_args(Way))} are right")

needs_scripts = pytest.mark.skipif(
    WAY == "without-scripts",
    reason="it waits for a page to change by itself, or presses keys that scripts listen for",
)

_CONTROL = """e => {
    if (e.control) e = e.control;
    e.focus();
    return [document.activeElement === e, e.tabIndex, e.type || ''];
}"""


def by_keyboard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have whatever a test clicks, checks or selects be focused and given keys instead."""

    def focus(locator: Locator) -> str:
        locator.wait_for()
        focused, tab_index, kind = locator.evaluate(_CONTROL)
        assert focused and tab_index >= 0, f"no key reaches {locator}"
        return str(kind)

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
