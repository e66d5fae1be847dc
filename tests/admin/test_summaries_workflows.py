"""The workflows pages: which there are, both graphs of each with the pass behind each change, and whose texts are shown."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from admin.pages.workflows import WORKFLOW, WORKFLOWS
from admin.summaries.workflow import workflow
from admin.summaries.workflows import workflows
from store.workflows.assets import NewText
from tests.admin.runs_kept import DOC_QA, WAIT_S, of_workflow
from tests.admin.site import Site, site

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path, workflows={"doc-qa": DOC_QA}) as made:
        yield made


def keep(site: Site, definition: dict[str, Any], name: str = "own-qa", tenant: str = "t1") -> None:
    assets = site.sources.store.runs.assets
    assets.put_workflow(tenant, name, "v1", json.dumps(definition).encode(), now_s=time.time()).result(WAIT_S)


def test_who_may_look() -> None:
    assert (WORKFLOWS.summary, WORKFLOW.summary) == (workflows, workflow)
    assert not WORKFLOWS.actions and not WORKFLOW.actions


async def test_all_workflows_are_listed_with_their_runs_and_collections(pages: Site) -> None:
    store = pages.sources.store
    of_workflow(store, "run_1", time.time() - 60)
    keep(pages, DOC_QA)
    texts = [NewText("one", b"\0" * 8), NewText("two", b"\0" * 8)]
    store.runs.assets.add_texts("t1", "papers", texts, identity="e", now_s=time.time()).result(WAIT_S)
    viewer = await pages.person("viewer")
    told = (await viewer.get("/workflows.json")).json
    (configured,) = told["configured"]
    assert (configured["name"], configured["steps"], configured["inputs"]) == (
        "doc-qa",
        6,
        {"question": "last_user", "documents": "texts"},
    )
    assert [run["id"] for run in configured["runs"]] == ["run_1"]
    assert [(one["name"], one["tenant"], one["number"]) for one in told["own"]] == [("own-qa", "t1", 1)]
    assert [(one["name"], one["texts"], one["size_bytes"]) for one in told["collections"]] == [
        ("papers", 2, 22)
    ]
    page = (await viewer.get("/workflows")).text
    assert "/workflows/own-qa?tenant=t1" in page and "papers" in page


async def test_both_graphs_are_drawn_with_the_pass_behind_each_change(pages: Site) -> None:
    viewer = await pages.person("viewer")
    told = (await viewer.get("/workflows/doc-qa.json")).json["explained"]
    declared, carried_out = told["p_graph"], told["e_graph"]
    assert len(carried_out["nodes"]) > len(declared["nodes"]), "pieces are drawn apart"
    places = [(node["x"], node["y"]) for node in carried_out["nodes"]]
    assert len(set(places)) == len(places)
    passes = {one["by"] for one in told["changes"]}
    assert {"prune", "decoding"} <= passes <= {"prune", "stages", "decoding"}
    assert {node["by"] for node in carried_out["nodes"]} - {""} <= passes
    assert "prune" in {edge["by"] for edge in declared["edges"]}
    numbers = {one["number"] for one in told["changes"]}
    assert all(set(node["changes"]) <= numbers for node in carried_out["nodes"])
    page = (await viewer.get("/workflows/doc-qa")).text
    assert "p-graph: as declared" in page and "found.search[0]" in page


async def test_passes_can_be_left_out(pages: Site) -> None:
    viewer = await pages.person("viewer")
    plain = (await viewer.get("/workflows/doc-qa.json?without=prune,stages,decoding")).json["explained"]
    assert (plain["changes"], plain["passes"]) == ([], [])
    assert [node["id"] for node in plain["p_graph"]["nodes"]] == [
        node["id"] for node in plain["e_graph"]["nodes"]
    ]
    pruned = (await viewer.get("/workflows/doc-qa.json?without=decoding")).json["explained"]
    assert "decoding" not in {one["by"] for one in pruned["changes"]} and pruned["changes"]
    assert (await viewer.get("/workflows/doc-qa.json?without=sorting")).status == 400


async def test_prompts_are_for_those_who_may_read_them(pages: Site) -> None:
    steps = {
        **DOC_QA["steps"],
        "queries": {**DOC_QA["steps"]["queries"], "chat": f"{HOSTILE} {{{{question}}}}"},
    }
    keep(pages, {**DOC_QA, "steps": steps})
    for role, reads in (("viewer", False), ("viewer-content", True)):
        person = await pages.person(role)
        told = (await person.get("/workflows/own-qa.json?tenant=t1")).json
        page = (await person.get("/workflows/own-qa?tenant=t1")).text
        assert told["explained"]["steps"] == 6
        assert (told["source"] is not None) is reads and HOSTILE not in page
        assert ("alert(1)" in page) is reads


async def test_what_is_not_there_is_said(pages: Site) -> None:
    keep(pages, {**DOC_QA, "steps": {**DOC_QA["steps"], "extra": {"chat": "Hi", "model": "gone"}}})
    reader = await pages.person("viewer-content")
    for path in ("other", "own-qa", "own-qa?tenant=t2", "own-qa?tenant=t1&version=v9", "doc-qa?version=v9"):
        assert (await reader.get(f"/workflows/{path}")).status == 404, path
    broken = await reader.get("/workflows/own-qa?tenant=t1")
    assert broken.status == 200 and "cannot be carried out any more" in broken.text and "gone" in broken.text
    assert "No workflow is configured" not in (await reader.get("/workflows")).text


async def test_without_workflows_the_page_says_how_to_begin(tmp_path: Path) -> None:
    async with site(tmp_path) as made:
        viewer = await made.person("viewer")
        assert "No workflow is configured" in (await viewer.get("/workflows")).text
