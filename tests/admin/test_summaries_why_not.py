"""The overview says why not more is offloaded, and what it would take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from admin.summaries.why_not import shared_why_not
from admin.why_not import Question
from tests.admin.site import Site, site
from tests.admin.test_summaries_overview import note
from tests.patience import PATIENCE_S

QUESTION = Question(None, (("demo", "large"),))


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


async def test_the_overview_names_reasons_and_what_they_take(pages: Site) -> None:
    for number in range(4):
        reason = "tools" if number else "not_plain_text"
        note(pages, number, engine="large", reason=reason, example_ids=(), reference_cost_usd=0.5)
    viewer = await pages.person("viewer")

    await viewer.get("/overview")
    await asyncio.to_thread(shared_why_not(pages.sources).wait_for, QUESTION, PATIENCE_S)
    told = (await viewer.get("/overview.json")).json["why_not"]
    assert [each["reason"] for each in told["scopes"][0]["reasons"]] == ["tools", "not_plain_text"]
    page = (await viewer.get("/overview")).text
    assert "it carries tools" in page and "with_tools: route" in page and "75" in page


async def test_whoever_looks_again_is_not_computed_for_again_at_once(pages: Site) -> None:
    note(pages, 1, engine="large", reason="tools", example_ids=())
    viewer = await pages.person("viewer")
    for _ in range(3):
        await viewer.get("/overview")
    why_not = shared_why_not(pages.sources)
    computed = (await asyncio.to_thread(why_not.wait_for, QUESTION, PATIENCE_S)).at_s
    await viewer.get("/overview")
    assert computed is not None and why_not.state(QUESTION).at_s == computed
