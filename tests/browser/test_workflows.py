"""The workflows pages in a real Chromium: two graphs side by side, and a decision that reaches the store."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from store.workflows.records import Resolution
from tests.admin.runs_kept import of_workflow
from tests.browser.stage import HOSTILE, Stage

OpenPage = Callable[..., Page]


@pytest.mark.slow
def test_both_graphs_of_a_workflow_are_drawn_side_by_side(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("viewer", viewport={"width": 1400, "height": 900})
    page.goto(staged.admin_url + "/workflows")
    page.get_by_role("link", name="doc-qa").first.click()
    graphs = page.locator(".workflow-graph")
    expect(graphs).to_have_count(2)
    left, right = (page.locator(".graphs > div").nth(n).bounding_box() for n in (0, 1))
    assert left and right and left["x"] + left["width"] <= right["x"] and left["y"] == right["y"]
    for graph in (graphs.first, graphs.last):
        boxes = [one.bounding_box() for one in graph.locator(".node .box").all()]
        assert all(box and box["width"] > 100 and box["height"] > 20 for box in boxes)
        assert len({(box["x"], box["y"]) for box in boxes if box}) == len(boxes), "no two boxes on one place"
    expect(graphs.first.locator(".edge.removed.by-prune")).to_have_count(1)
    expect(graphs.last.locator(".node.by-decoding").first).to_be_visible()
    colours = {
        graphs.last.locator(f".node{of} .class").first.evaluate("mark => getComputedStyle(mark).fill")
        for of in (":not([class*=by-])", ".by-stages", ".by-decoding")
    }
    assert len(colours) == 3, "each pass has a colour of its own"
    page.get_by_label("Without").select_option("decoding")
    page.get_by_role("button", name="Draw").click()
    expect(page.locator(".workflow-graph .node.by-decoding")).to_have_count(0)


def test_what_a_hostile_tenant_kept_does_not_come_alive(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("viewer-content")
    page.goto(staged.admin_url + "/workflows")
    page.get_by_role("link", name="own-qa").click()
    expect(page.locator("#definition pre")).to_contain_text("window.pwned=1")
    assert page.evaluate("window.pwned") is None
    page = as_role("viewer")
    page.goto(staged.admin_url + "/workflows/own-qa?tenant=default")
    expect(page.locator(".workflow-graph")).to_have_count(2)
    assert page.get_by_text(HOSTILE).count() == 0 and page.locator("#definition").count() == 0


def test_the_run_of_a_workflow_shows_pieces_and_batches(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("viewer")
    page.goto(staged.admin_url + "/runs/run_of_doc_qa")
    expect(page.locator(".run-graph .node")).to_have_count(5)
    expect(page.locator(".figure", has_text="Module by module").locator("b")).to_have_text("5.0\u202fs")
    row = page.locator(".waterfall tbody tr", has_text="index.embed[0]")
    expect(row).to_contain_text("embed, 2 items")
    expect(row).to_contain_text("batch of 2")


def test_a_person_decides_about_a_step_that_was_cut_off(staged: Stage, as_role: OpenPage) -> None:
    of_workflow(staged.store, "run_cut_off", time.time(), tenant="default", ends=False)
    page = as_role("operator")
    page.goto(staged.admin_url + "/runs/run_cut_off")
    expect(page.get_by_role("heading", name="book may or may not have taken effect")).to_be_visible()
    expect(page.locator(".run-graph .node.unknown")).to_have_count(1)
    page.get_by_label("Its answer").fill("booked\ntwice")
    page.get_by_role("button", name="Take this value").click()
    expect(page.locator("main > .flash")).to_contain_text("its worker goes on within a second")
    expect(page.get_by_text("Decided: value.")).to_be_visible()
    expect(page.get_by_role("button", name="Retry")).to_have_count(0)
    whole = staged.store.runs.run("run_cut_off")
    assert whole is not None
    assert [step.resolution for step in whole.steps if step.resolution] == [
        Resolution("value", "booked\ntwice")
    ]


@pytest.mark.slow
def test_a_workflow_that_the_gateway_carried_out_is_shown(staged: Stage, as_role: OpenPage) -> None:
    documents = [f"Document {n} of the river and its {n} bridges. {HOSTILE}" for n in range(3)]
    got = staged.ask(
        "How many bridges has the river?", model="look-up", understudy={"inputs": {"documents": documents}}
    )
    assert got["choices"][0]["message"]["content"]
    run = {name.lower(): value for name, value in got["headers"].items()}["x-understudy-run"]
    staged.settle()
    page = as_role("viewer")
    page.goto(f"{staged.admin_url}/runs/{run}")
    expect(page.locator("#news .badge").first).to_have_text("done")
    rows = page.request.get(f"{staged.admin_url}/runs/{run}.json").json()["rows"]
    primitives = {row["primitive"]: row for row in rows}
    assert {"split", "embed", "ingest", "search", "rerank", "chat"} <= primitives.keys()
    assert primitives["embed"]["component"] == "local" and primitives["embed"]["items"] > 0
    expect(page.locator(".figure", has_text="Module by module")).to_be_visible()
    expect(page.locator(".run-graph .node.done")).to_have_count(len(rows))
    page.get_by_role("link", name="look-up").last.click()
    expect(page.locator(".workflow-graph")).to_have_count(2)
    assert page.evaluate("window.pwned") is None
