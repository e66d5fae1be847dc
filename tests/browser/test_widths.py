"""Every page at the widths of a phone, a tablet, a laptop and a large screen, in the state of a real deployment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from admin.pages import PAGES
from store.people.limits import Budget, Limits, Terms
from tests.browser.real_gateway import Engine, RealGateway, real_gateway
from tests.patience import wait_for

WIDTHS = (360, 768, 1280, 1920)
MENU = [page.path for page in PAGES if "{" not in page.path]
PRICED = {"price": {"input_usd_per_mtok": 1000.0, "output_usd_per_mtok": 123_456.0}}
LARGE = "openai-gpt-5.1-2026-11-13-provisioned-throughput-sweden-central"
SMALL = "meta-llama_Llama-4-Scout-17B-16E-Instruct-FP8-dynamic"
LONG_MODEL = "customer-support-answers-with-retrieval-augmented-generation-v2"
TENANT = "Gesellschaft-für-Verkehrsüberwachung-und-Straßenbeleuchtung mbH"
CONFIG: dict[str, Any] = {
    "engines": {LARGE: PRICED, SMALL: PRICED},
    "models": {
        LONG_MODEL: {"engines": [SMALL, LARGE], "policy": "fixed"},
        "gpt-4o": {"engines": [SMALL, LARGE], "policy": "in_context", "proof": "off"},
        "summaries": {"engines": [SMALL]},
        "unpriced": {"engines": ["without-a-price"]},
    },
    "memory": {"exact": {"enabled": True}},
}

SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CUT = """() => [...document.querySelectorAll("main .num, main .figure b")].filter(one => {
    if (!one.checkVisibility({contentVisibilityAuto: true})) return false;
    const found = one.getBoundingClientRect();
    const box = (one.closest(".table") ?? one.closest(".card") ?? document.body).getBoundingClientRect();
    return found.right > box.right + 1 || found.left < box.left - 1 || one.scrollWidth > one.clientWidth + 1;
}).map(one => (one.closest(".table")?.getAttribute("aria-label") ?? "page") + ": " + one.innerText)"""
"""Figures that stand outside of what shows of their table or card, or have no room in their own cell."""


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealGateway]:
    engines = {name: Engine("Forty-two. " * 40) for name in (LARGE, SMALL, "without-a-price")}
    with real_gateway(tmp_path_factory.mktemp("widths"), CONFIG, engines=engines) as made:
        lived_in(made)
        yield made


def lived_in(gate: RealGateway) -> None:
    """Requests that were answered, repeated, failed over and failed, by several models, keys and tenants."""
    terms = Terms(limits=Limits(budgets=(Budget(1_234_567.89, "month"),), allow_unpriced=True))
    _, gate.key = gate.store.keys.create(
        TENANT, "the key of the department for press and public relations", terms=terms
    )
    wait_for(lambda: known(gate), "the key known to every worker", log=gate.gateway.log)
    for model in (LONG_MODEL, "gpt-4o", "summaries", "unpriced"):
        for question in ("Who wrote Norma?", "Who wrote Norma?", "Who wrote Fidelio?"):
            gate.ask(question, model=model)
    gate.engines[LARGE].kill()
    gate.ask("Who wrote Tosca?", model=LONG_MODEL)
    gate.engines[SMALL].fails_with = 500
    for model in (LONG_MODEL, "summaries"):
        with pytest.raises(openai.APIStatusError):
            gate.ask("Who wrote Aida?", model=model)
    gate.settle()


def known(gate: RealGateway) -> bool:
    try:
        return bool(gate.ask_each_worker("Who wrote Turandot?", model="gpt-4o"))
    except openai.AuthenticationError:
        return False


def paths(gate: RealGateway, page: Page) -> list[str]:
    """Every page there is something to show on, those of one thing too."""
    found = list(MENU)
    for section in ("/requests", "/tenants", "/docs"):
        page.goto(gate.admin_url + section)
        links = page.locator(f"main a[href^='{section}/']")
        found.append(str(links.first.get_attribute("href")))
    return found


def wrong_at(gate: RealGateway, page: Page, path: str, width: int) -> list[str]:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(gate.admin_url + path)
    page.wait_for_load_state("load")
    wide = page.evaluate(SIDEWAYS)
    found = [f"{path} at {width} px: {wide} pixels too wide"] if wide > 0 else []
    found += [f"{path} at {width} px: cut: {one}" for one in page.evaluate(CUT)]
    results = Axe().run(page, options={"resultTypes": ["violations"]})
    for violation in results.response["violations"]:
        nodes = [node["html"][:160] for node in violation["nodes"][:3]]
        found.append(f"{path} at {width} px: {violation['id']}: {nodes}")
    return found


def test_the_overview_is_readable_at_every_width(
    gate: RealGateway, profile: Callable[..., BrowserContext]
) -> None:
    page = gate.signed_in(profile(reduced_motion="reduce"))
    row = page.get_by_role("region", name="What it cost, and what it saved").locator(
        "tr", has_text="Not compared"
    )
    expect(row.locator(".num")).to_contain_text("$")
    found = [one for width in WIDTHS for one in wrong_at(gate, page, "/overview?span=hour", width)]
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_is_readable_at_every_width(
    gate: RealGateway, profile: Callable[..., BrowserContext], width: int
) -> None:
    page = gate.signed_in(profile(reduced_motion="reduce"))
    found = [one for path in paths(gate, page) for one in wrong_at(gate, page, path, width)]
    assert not found, "\n".join(found)
