"""Is replay worth it? In a real Chromium: a plan runs from its page, and its realised benefit stands beside its cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.real_gateway import Engine, RealGateway, real_gateway
from tests.patience import PATIENCE_S

SHOP, MUSEUM = "When does the bakery in Main Street open", "At what hour does the city museum close its doors"
WRONG, RIGHT, CLOSES = "It opens at nine.", "It opens at eight.", "It closes at six."
ENOUGH = 31
ROUND_MS = 60_000


def reference(answer: str) -> Callable[[dict[str, Any]], str]:
    """What the large engine says of the bakery; of the museum always the same."""

    def says(body: dict[str, Any]) -> str:
        return answer if SHOP in body["messages"][-1]["content"] else CLOSES

    return says


def repeats(body: dict[str, Any]) -> str:
    """A small engine that says what the example in its prompt said."""
    said = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
    return said[-1] if said else "Nobody knows."


def judges(body: dict[str, Any]) -> str:
    """The verdict of one who knows when the bakery opens."""
    shown = body["messages"][-1]["content"]
    first, second = (
        ((found := re.search(rf"<<<{name} ANSWER (\w+)>>>\n(.*?)\n<<<END", shown, re.DOTALL)) and found[2])
        or ""
        for name in ("FIRST", "SECOND")
    )
    code = re.search(r"SCORE (\w+): n", body["messages"][0]["content"])
    assert code is not None
    # It is examined first, by the same answers beside those of the other question.
    worth = {RIGHT: 2, WRONG: 1} if SHOP in shown.partition("<<<FIRST ANSWER")[0] else {CLOSES: 1}
    one, other = worth.get(first, 0), worth.get(second, 0)
    return f"SCORE {code[1]}: {3 * ((one > other) - (one < other))}"


def config() -> dict[str, Any]:
    def engine(usd: float) -> dict[str, Any]:
        price = {"input_usd_per_mtok": usd, "output_usd_per_mtok": usd}
        return {"model": "m", "api_key": "k", "price": price}

    return {
        "engines": {"small": engine(1), "large": engine(10), "judge": engine(0.01)},
        "models": {
            "demo": {
                "engines": ["small", "large"],
                "policy": "few_shot",
                "proof": "off",
                "few_shot": {"m": 1, "theta": 0.6, "max_examples": 1},
            }
        },
        "judging": {"engine": "judge", "share_offloaded": 1, "advanced": {"samples": 1, "others": 0}},
        "learning": {"spend_share": 1},
        # Never by itself: it is run from its page.
        "replay": {
            "enabled": True,
            "cron": "0 0 29 2 *",
            "advanced": {"calm_s": 0.3},
        },
    }


def asked(gate: RealGateway, questions: Iterable[str]) -> None:
    """All of them, by both workers in turn, over one connection each."""
    first, second = gate.workers
    with gate.client(first) as one, gate.client(second) as other:
        for number, question in enumerate(questions):
            client = (one, other)[number % 2]
            client.chat.completions.create(model="demo", messages=[{"role": "user", "content": question}])
    gate.settle()


def judged(gate: RealGateway, count: int) -> None:
    """Wait until so many answers were judged."""
    gate.gateway.wait_for(
        lambda: (
            sum(n for (_, _, source), n in gate.store.outcomes.counts().items() if source == "judge") >= count
        ),
        f"{count} answers judged",
        4 * PATIENCE_S,
    )


@pytest.mark.slow
def test_a_plan_is_run_from_its_page_and_its_benefit_stands_beside_its_cost(
    tmp_path: Path, profile: Callable[..., BrowserContext]
) -> None:
    engines = {"small": Engine(repeats), "large": Engine(reference(WRONG)), "judge": Engine(judges)}
    with real_gateway(tmp_path, config(), engines=engines) as gate:
        asked(gate, [f"{SHOP}?", f"{MUSEUM}?"])
        engines["large"].says = reference(RIGHT)
        tickets = [f"{what}? Ticket {n}." for n in range(ENOUGH) for what in (SHOP, MUSEUM)]
        asked(gate, tickets)
        judged(gate, len(tickets))

        page = gate.signed_in(profile())
        steps = page.locator("tbody tr")
        for _ in range(100):
            page.goto(f"{gate.admin_url}/replay")
            page.get_by_label("Budget in dollars").fill("0.05")
            page.get_by_role("button", name="Plan", exact=True).press("Enter")
            expect(page.locator("main > .flash")).to_contain_text("Nothing was asked")
            if steps.count():
                break
            # What examples gained is written now and then.
            page.wait_for_timeout(200)
        planned = steps.count()
        assert planned > 0, "there is something to better"
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Run this plan").press("Enter")
        expect(page.locator("main > .flash")).to_contain_text("is wanted")
        expect(page.locator("#news .badge").first).to_have_text("done", timeout=2 * ROUND_MS)
        expect(page.get_by_role("region", name="Steps").locator("tbody tr")).to_have_count(planned)
        expect(page.get_by_role("region", name="Results")).to_contain_text("replaced")
        benefit = page.locator("#benefit")
        expect(benefit).to_contain_text("not known yet")
        expect(benefit).to_contain_text("0 of 30 judged answers")
        expect(page.locator("dl.facts").first).to_contain_text("by ann")
        run_url = page.url

        asked(gate, [f"{question} Once more." for question in tickets])
        judged(gate, 2 * len(tickets))
        # It is computed anew every 20 seconds at most.
        for _ in range(20):
            page.goto(run_url)
            expect(benefit.locator("dl.facts")).to_be_visible()
            if "not known yet" not in benefit.inner_text():
                break
            page.wait_for_timeout(5000)
        expect(benefit).to_contain_text(re.compile(r"\+\d+\.\d points \(\d+"))
        expect(benefit.locator("dt", has_text="Spent")).to_be_visible()
        rows = page.get_by_role("region", name="Judged quality before and after").locator("tbody tr")
        before, after = (rows.nth(0).locator("td").nth(n).inner_text() for n in (2, 4))
        assert before.startswith("0.0") and after.startswith("100.0"), (
            "of the requests with the changed example"
        )
        told = page.request.get(f"{run_url}.json").json()["benefit"]
        assert told["quality"]["value"] > 0.9 and told["quality"]["low"] > 0.5
        assert told["usd"]["low"] < 0 < told["usd"]["high"], "no more was offloaded than before"
        page.goto(f"{gate.admin_url}/replay")
        expect(page.get_by_role("region", name="Runs").locator("tbody tr").first).to_contain_text("points")
