"""The figures of Overview can be read at the width of a laptop, whatever happened to requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, expect

from tests.browser.real_gateway import Engine, real_gateway

PRICED = {"price": {"input_usd_per_mtok": 1000.0, "output_usd_per_mtok": 1000.0}}
CONFIG: dict[str, Any] = {
    "engines": {"stand-in": PRICED, "large": PRICED},
    "models": {"demo": {"engines": ["stand-in", "large"], "policy": "fixed"}},
    "memory": {"exact": {"enabled": False}},
}
CUT = """() => [...document.querySelectorAll("main .table")].flatMap(box => {
    const {left, right} = box.getBoundingClientRect();
    return [...box.querySelectorAll(".num")]
        .filter(cell => cell.checkVisibility({contentVisibilityAuto: true}))
        .filter(cell => {
            const found = cell.getBoundingClientRect();
            return found.right > right + 1 || found.left < left - 1 || cell.scrollWidth > cell.clientWidth + 1;
        })
        .map(cell => box.getAttribute("aria-label") + ": " + cell.innerText);
})"""
"""Figures that stand outside of what shows of their table."""


def test_no_figure_is_cut_at_1280_pixels_after_requests_failed_and_failed_over(
    tmp_path: Path, profile: Callable[..., BrowserContext]
) -> None:
    engines = {"stand-in": Engine("Forty-two."), "large": Engine("Forty-two.")}
    with real_gateway(tmp_path, CONFIG, engines=engines) as gate:
        gate.ask("How many roads must a man walk down?")
        engines["large"].kill()
        for opera in ("Norma", "Fidelio", "Tosca"):
            assert gate.ask(f"Who wrote {opera}?").text == "Forty-two."
        gate.settle()
        page = gate.signed_in(profile(viewport={"width": 1280, "height": 800}))
        table = page.get_by_role("region", name="What it cost, and what it saved")
        row = table.locator("tr", has_text="Not compared")
        expect(row.locator(".num")).to_contain_text("$")
        assert page.evaluate(CUT) == []
