"""How much was saved, and at what quality? On the pages alone: from "not measured" to a critical alarm; and an outage."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from router.shedding import Shedding
from tests.browser.real_gateway import Engine, RealGateway, real_gateway
from tests.browser.ways import SCRIPTED

CHEAP = {"price": {"input_usd_per_mtok": 100.0, "output_usd_per_mtok": 100.0}}
DEAR = {"price": {"input_usd_per_mtok": 10_000.0, "output_usd_per_mtok": 10_000.0}}
FREE = {"price": {"input_usd_per_mtok": 0.0, "output_usd_per_mtok": 0.0}}
CONFIG: dict[str, Any] = {
    "engines": {"small": CHEAP, "large": DEAR, "judge": FREE},
    "models": {
        "demo": {
            "engines": ["small", "large"],
            "policy": "few_shot",
            "proof": "off",
            "few_shot": {"theta": 0.5, "m": 1},
        }
    },
    "memory": {"exact": {"enabled": False}},
    "judging": {
        "engine": "judge",
        "share_offloaded": 1.0,
        "max_usd_per_day": 1e6,
        "advanced": {"samples": 1, "others": 0},
    },
    "learning": {"advanced": {"starting_requests": 10**6}},
}
RUBBISH = "Nonsense, I am afraid."
_VERDICTS = 12 + 2 * 45
"""Of the exam, and of comparisons in both orders."""


def directory_of(text: str) -> str:
    """The first directory that a text names; empty if it names none."""
    named = re.search(r"directory number (\d+)", text)
    return named[1] if named else ""


def good(body: dict[str, Any]) -> str:
    return f"Use ls -a in directory number {directory_of(body['messages'][-1]['content'])}."


class Verdicts:
    """A judge's words: better is the answer that names the directory that was asked about, whichever comes first."""

    def __init__(self) -> None:
        self.given = 0

    def __call__(self, body: dict[str, Any]) -> str:
        self.given += 1
        shown = body["messages"][-1]["content"]
        code = re.search(r"<<<FIRST ANSWER (\S+?)>>>", shown)
        assert code, shown[:500]
        asked, _, answers = shown.partition("<<<FIRST ANSWER")
        first, _, second = answers.partition("<<<END FIRST ANSWER")
        right = [directory_of(answer) == directory_of(asked) for answer in (first, second)]
        return f"SCORE {code[1]}: {3 * (right[0] - right[1])}"


def tile(page: Page, label: str) -> Locator:
    return page.locator(".figure", has=page.locator("dt", has_text=re.compile(f"^{label}$")))


def offloaded(gate: RealGateway, count: int) -> list[str]:
    """Ids of so many answers that were offloaded, to similar questions: some of the reference's have to be there first."""
    found: list[str] = []
    while len(found) < count:
        number = len(gate.engines["small"].asked) + len(gate.engines["large"].asked)
        given = gate.ask(f"How do I list all files in directory number {number} on Linux?")
        if given.headers["x-understudy-engine"] == "small":
            found.append(given.decision_id)
    gate.settle()
    return found


@pytest.mark.slow
def test_savings_stand_beside_the_quality_they_were_made_at(
    tmp_path: Path, profile: Callable[..., BrowserContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    # No comparison is shed: how busy the machine of the tests is decides nothing.
    monkeypatch.setattr(Shedding, "look", lambda *_, **__: None)
    engines = {
        "small": Engine(RUBBISH),
        "large": Engine(good),
        "judge": Engine(),
    }
    engines["judge"].fails_with = 500
    with real_gateway(tmp_path, CONFIG, engines=engines) as gate:
        decisions = offloaded(gate, 3)
        page = gate.signed_in(profile())
        expect(tile(page, "Offloaded")).to_contain_text(re.compile(r"3 of \d+"))
        saved = tile(page, "Net saved")
        expect(saved.locator(".badge.warn")).to_have_text("quality not measured")
        expect(page.locator(".attention")).not_to_contain_text("Quality of small")

        # One client says what it thinks of an answer: shown, and apart from the judge.
        with gate.client() as client:
            client.post("/feedback", body={"decision_id": decisions[-1], "thumb": "down"}, cast_to=object)
        expect(tile(page, "Feedback on offloaded answers")).to_contain_text("1 rated")
        expect(saved).not_to_contain_text("quality not measured")

        verdicts = engines["judge"].says = Verdicts()
        engines["judge"].fails_with = None
        while verdicts.given < _VERDICTS:
            decisions += offloaded(gate, 1)
        alarm = page.locator(".attention li", has_text="Quality of small for demo")
        expect(alarm).to_contain_text("critical")
        expect(alarm).to_contain_text(re.compile(r"0\.0% \(95% interval 0\.0% to \d+\.\d%, \d+ judged\)"))
        expect(saved).to_contain_text(re.compile(r"at quality 0\.0.%.*\d+ judged"))
        expect(page.locator("#quality tbody tr").first).to_contain_text("critical")
        spent = page.get_by_role("region", name="What it cost, and what it saved")
        expect(spent).to_contain_text("Saved before what learning spends")
        expect(spent).to_contain_text("judges' verdicts")
        expect(saved).to_contain_text("that learning spent")

        # The figure leads to a list of as many requests, and the alarm to how it came about.
        page.get_by_role("link", name="Offloaded", exact=True).click()
        expect(page.locator("table.requests tbody tr")).to_have_count(len(decisions))
        page.goto(gate.admin_url + "/overview")
        alarm.get_by_role("link").click()
        expect(page.get_by_role("heading", name="Trends")).to_be_visible()
        expect(tile(page, "Saved, gross")).to_contain_text("judged")
        if SCRIPTED:
            expect(page.locator("#chart-quality .main-svg").first).to_be_visible()
        page.get_by_text("In figures").click()
        # A minute may end between the judged answers: its row is not the last then.
        of_judged = page.locator(
            "#trends-table tbody tr", has_text=re.compile(r"0\.0.%\s*0\.0.% to \d+\.\d.%")
        )
        expect(of_judged.first).to_be_visible()
        with page.expect_download() as download:
            page.get_by_role("link", name="CSV").click()
        assert b"quality_low" in Path(download.value.path()).read_bytes()

        # While the reference is down another one answers: that is neither offloaded nor saved.
        page.goto(gate.admin_url + "/overview")
        before = tile(page, "Offloaded").inner_text(), tile(page, "Net saved").locator("b").inner_text()
        engines["large"].kill()
        for opera in ("Norma", "Fidelio", "Tosca"):
            assert gate.ask(f"Who wrote {opera}, and in which year?").text == RUBBISH
        gate.settle()
        expect(tile(page, "Failed over")).to_contain_text("3")
        assert (
            tile(page, "Offloaded").inner_text(),
            tile(page, "Net saved").locator("b").inner_text(),
        ) == before
