"""The job "a wrong answer": found, corrected or taken back on the pages alone, and given again by no worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.real_gateway import Engine, RealGateway, real_gateway

WRONG, RIGHT, ANEW = "Within 24 hours.", "Within 27 hours.", "It depends on the contract."
CONFIG = {"models": {"demo": {"engines": ["large"]}}}


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealGateway]:
    """Two workers before one engine. Each test asks a question of its own."""
    folder = tmp_path_factory.mktemp("wrong")
    with real_gateway(folder, CONFIG, engines={"large": Engine(WRONG)}) as made:
        yield made


@pytest.fixture
def operator(gate: RealGateway, profile: Callable[..., BrowserContext]) -> Page:
    return gate.signed_in(profile())


def given_wrong(gate: RealGateway, question: str) -> None:
    """Have both workers give the wrong answer from the cache; the engine would say something else by now."""
    gate.engines["large"].says = WRONG
    first = gate.ask(question)
    assert (first.hit, first.text) == (False, WRONG)
    gate.settle()
    assert [(each.hit, each.text) for each in gate.ask_each_worker(question)] == [(True, WRONG)] * 2
    gate.engines["large"].says = ANEW
    gate.settle()


def found(operator: Page, gate: RealGateway, words: str) -> None:
    """Open the request that was first answered, found by its words."""
    operator.goto(f"{gate.admin_url}/requests?q={words.replace(' ', '+')}")
    # Its repeats are found with it, and stand below it.
    operator.locator("table.requests tbody a[href^='/requests/']").first.click()
    expect(operator.locator("#answer")).to_have_text(WRONG)


def in_the_bank(operator: Page) -> None:
    """From a request to the example that it became."""
    operator.locator("main a[href^='/examples/']").first.click()
    expect(operator.get_by_role("heading", name="Where it came from")).to_be_visible()


def answers(gate: RealGateway, question: str) -> list[tuple[bool, str]]:
    return [(each.hit, each.text) for each in gate.ask_each_worker(question)]


@pytest.mark.slow
def test_corrected_it_is_given_the_correction_by_both_workers(gate: RealGateway, operator: Page) -> None:
    question = "Within how many hours is a complaint about parcels answered?"
    given_wrong(gate, question)
    found(operator, gate, "complaint parcels")
    operator.locator("summary", has_text="Correct the answer").click()
    operator.locator("textarea[name=correction]").fill(RIGHT)
    operator.get_by_role("button", name="Correct", exact=True).click()
    expect(operator.locator("main > .flash")).to_contain_text("The same request is answered with this")
    assert answers(gate, question) == [(True, RIGHT)] * 2
    # What it was corrected to, and by whom; and the example is that person's, unjudged.
    expect(operator.locator("pre.correction")).to_have_text(RIGHT)
    operator.get_by_text("Corrected answer, now").get_by_role("link").click()
    expect(operator.locator("dl.facts").first).to_contain_text("a person, ann")
    expect(operator.locator("dl.figures")).to_contain_text("0 judgements")


@pytest.mark.slow
def test_after_a_thumb_down_it_is_answered_anew(gate: RealGateway, operator: Page) -> None:
    question = "Within how many hours is a complaint about invoices answered?"
    given_wrong(gate, question)
    found(operator, gate, "complaint invoices")
    operator.locator("summary", has_text="Give feedback").click()
    operator.locator("input[name=thumb][value=down]").check()
    operator.get_by_role("button", name="Give feedback").click()
    expect(operator.locator("main > .flash")).to_contain_text("1 stored answer was deleted")
    assert answers(gate, question) == [(False, ANEW)] * 2


@pytest.mark.slow
def test_after_an_edit_it_is_answered_anew(gate: RealGateway, operator: Page) -> None:
    question = "Within how many hours is a complaint about refunds answered?"
    given_wrong(gate, question)
    found(operator, gate, "complaint refunds")
    in_the_bank(operator)
    operator.get_by_text("Edit its texts").click()
    operator.locator("textarea[name=answer]").fill(RIGHT)
    operator.get_by_role("button", name="Save").click()
    expect(operator.locator("main > .flash")).to_contain_text("1 stored answer was deleted")
    assert answers(gate, question) == [(False, ANEW)] * 2


@pytest.mark.slow
def test_after_a_quarantine_it_is_answered_anew(gate: RealGateway, operator: Page) -> None:
    question = "Within how many hours is a complaint about drivers answered?"
    given_wrong(gate, question)
    found(operator, gate, "complaint drivers")
    in_the_bank(operator)
    operator.get_by_role("button", name="Quarantine").click()
    expect(operator.locator("main > .flash")).to_contain_text("no request is answered with it from now on")
    assert answers(gate, question) == [(False, ANEW)] * 2


@pytest.mark.slow
def test_after_a_deletion_it_is_answered_anew(gate: RealGateway, operator: Page) -> None:
    question = "Within how many hours is a complaint about damage answered?"
    given_wrong(gate, question)
    found(operator, gate, "complaint damage")
    in_the_bank(operator)
    operator.get_by_role("button", name="Delete…").click()
    expect(operator.get_by_text("Stored answers made with it")).to_be_visible()
    operator.get_by_role("button", name="Delete it").click()
    expect(operator.locator("main > .flash")).to_contain_text("1 stored answer was deleted")
    assert answers(gate, question) == [(False, ANEW)] * 2


@pytest.mark.slow
def test_a_purge_counts_first_and_then_both_workers_ask_anew(gate: RealGateway, operator: Page) -> None:
    question = "Within how many hours is a complaint about noise answered?"
    given_wrong(gate, question)
    operator.goto(gate.admin_url + "/cache")
    row = operator.locator("#entries tbody tr").first
    expect(row).to_contain_text("noise")
    row.get_by_role("button", name="Purge…").click()
    expect(operator.get_by_text("Nothing is deleted yet", exact=False).first).to_be_visible()
    assert answers(gate, question) == [(True, WRONG)] * 2
    operator.get_by_role("button", name="Purge", exact=True).click()
    expect(operator.locator("main > .flash")).to_contain_text("Purged")
    assert answers(gate, question) == [(False, ANEW)] * 2
