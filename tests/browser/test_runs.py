"""The runs pages in a real Chromium: a graph and a waterfall that can be seen, news without a reload, and a cancel."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from store.workflows.records import RunChange, RunEnd, StepProgress, VariableEnd
from tests.admin.runs_kept import WAIT_S, going_on
from tests.browser.stage import HOSTILE, Stage

OpenPage = Callable[..., Page]


def test_a_run_s_graph_and_waterfall_are_drawn(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("viewer-content")
    page.goto(staged.admin_url + "/runs?app=papers")
    page.get_by_role("link", name="run_done").click()
    expect(page.get_by_role("heading", name="Waterfall")).to_be_visible()
    nodes = page.locator(".run-graph .node")
    expect(nodes).to_have_count(7)
    boxes = [nodes.nth(n).bounding_box() for n in range(7)]
    assert all(box and box["width"] > 100 and box["height"] > 20 for box in boxes)
    assert len({(box["x"], box["y"]) for box in boxes if box}) == 7, "no two boxes on one place"
    assert page.locator(".run-graph .edge").count() == 6
    assert page.locator(".run-graph .edge.critical").count() == 1
    expect(page.locator(".run-graph .node.critical")).to_have_count(2)
    rows = page.locator(".waterfall tbody tr")
    expect(rows).to_have_count(7)
    last = rows.last
    expect(last).to_contain_text("critical path")
    expect(last).to_contain_text("400 cached")
    widths = {
        phase: (last.locator(f".bars .{phase}").bounding_box() or {"width": 0.0})["width"]
        for phase in ("waiting", "queued", "prefill", "decode")
    }
    assert widths["waiting"] > widths["decode"] > widths["queued"] > widths["prefill"] > 1
    colours = {
        page.locator(f".bars .{phase}").first.evaluate("bar => getComputedStyle(bar).fill")
        for phase in widths
    }
    assert len(colours) == 4, "each phase has a colour of its own"


def test_what_a_hostile_client_sent_does_not_come_alive(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("viewer-content")
    page.goto(staged.admin_url + "/runs/run_failed")
    expect(page.get_by_text(HOSTILE).first).to_be_visible()
    assert page.evaluate("window.pwned") is None
    page = as_role("viewer")
    page.goto(staged.admin_url + "/runs/run_failed")
    expect(page.get_by_text("step_failed").first).to_be_visible()
    assert page.get_by_text(HOSTILE).count() == 0


@pytest.mark.slow
def test_a_run_is_followed_and_cancelled(staged: Stage, as_role: OpenPage) -> None:
    at_s = time.time()
    going_on(staged.store, "run_followed", at_s)
    page = as_role("operator")
    page.goto(staged.admin_url + "/runs/run_followed")
    expect(page.locator("#live-state")).to_have_text("live")
    page.evaluate("window.stays = true")
    expect(page.locator(".run-graph .node.running")).to_have_count(1)
    done = StepProgress("done", 1, "latency", ready_at_s=at_s, started_at_s=at_s, ended_at_s=at_s + 1)
    change = RunChange(
        "run_followed", at_s + 1, {"s1": done}, variables=[VariableEnd("run_followed-1", "ready", "x")]
    )
    staged.store.runs.save("w1", [change]).result(WAIT_S)
    expect(page.locator(".run-graph .node.done")).to_have_count(2)
    assert page.evaluate("window.stays"), "it must not have been loaded anew"
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("main > .flash")).to_contain_text("Asked to cancel")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    whole = staged.store.runs.run("run_followed")
    assert whole is not None and whole.run.cancel_asked
    end = RunChange("run_followed", at_s + 2, end=RunEnd("cancelled", at_s + 2))
    staged.store.runs.save("w1", [end]).result(WAIT_S)
    expect(page.locator("#news .badge").first).to_have_text(re.compile("cancelled"))


@pytest.mark.slow
def test_a_run_that_the_gateway_carried_out_is_shown(staged: Stage, as_role: OpenPage) -> None:
    def asked(text: str, name: str) -> dict[str, Any]:
        messages = [{"role": "user", "content": text}]
        return {"model": "demo", "messages": messages, "understudy": {"output": {"name": name}}}

    steps = [asked("All: {{one}} {{two}}", "joined"), asked("Part {{text}} 1", "one"), asked("Part 2", "two")]
    run = staged.post("/runs", {"steps": steps, "inputs": {"text": HOSTILE}, "get": {"joined": "latency"}})
    assert run["status"] == "done", run
    staged.settle()
    page = as_role("viewer")
    page.goto(f"{staged.admin_url}/runs/{run['id']}")
    expect(page.locator(".run-graph .node.done")).to_have_count(3)
    expect(page.locator(".run-graph .node.group")).to_have_count(2)
    expect(page.locator(".run-graph .edge")).to_have_count(2)
    row = page.locator(".waterfall tbody tr", has_text="joined")
    assert row.locator(".bars .waiting").count() == 1
    row.get_by_role("link", name="joined").click()
    expect(page.get_by_role("heading", name="Request")).to_be_visible()
    assert page.evaluate("window.pwned") is None
