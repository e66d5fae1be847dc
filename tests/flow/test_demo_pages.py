"""After the demo every admin page has something to show: none is empty, all dashes, or asks for a setting.

Nor does one say anything by an old name, and what the demo prints of the pages is so.
"""

from __future__ import annotations

import asyncio
import csv
import io
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from rich.console import Console

from admin.formats import NOTHING
from admin.pages import PAGES
from simulation.demo.admin_access import AdminAccess, admin_access, create_account
from simulation.demo.gateway_process import running_gateway
from simulation.demo.keys import NAME, TENANT, create_keys
from simulation.demo.operator import Operator
from simulation.demo.run import ask_about_documents, look_after, measure, sort_some
from simulation.demo.screen import Screen
from simulation.demo.settings import LIMITED_KEY, DemoSettings, gateway_config, memory_folder
from tests.patience import PATIENCE_S

SETTINGS = DemoSettings(requests=900, rate_per_s=40, pace=0.2, baseline=12, feedback_share=0.2, admin_port=0)
_SETTING = re.compile(
    r"\b[Ss]et (?:models|judging|replay|memory|admin|engines|learning|feedback)\b|\bSet engines and"
)
_ALL_THE_SAME = {NOTHING, "", "not known", "not known yet", "not measured"}


class _Read(HTMLParser):
    """Texts of a page that say that there is nothing: empty boxes, and tables and figures without a value."""

    def __init__(self) -> None:
        super().__init__()
        self.empty: list[str] = []
        self.figures: list[str] = []
        self.cells: list[list[str]] = []
        self._in: list[str] = []
        self._depth = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        classes = (dict(attributes).get("class") or "").split()
        if tag == "div" and "empty" in classes:
            self.empty.append("")
            self._depth = 1
        elif tag == "div" and self._depth:
            self._depth += 1
        if tag == "table":
            self.cells.append([])
        if tag == "td" and "num" in classes and self.cells:
            self.cells[-1].append("")
            self._in.append("td")
        if tag == "b":
            self.figures.append("")
            self._in.append("b")

    def handle_endtag(self, tag: str) -> None:
        if tag == "div" and self._depth:
            self._depth -= 1
        if self._in and self._in[-1] == tag:
            self._in.pop()

    def handle_data(self, data: str) -> None:
        if self._depth and self.empty:
            self.empty[-1] += data
        elif self._in and self._in[-1] == "td":
            self.cells[-1][-1] += data
        elif self._in:
            self.figures[-1] += data


def lacks(page: str, *, of_one: bool = False) -> list[str]:
    """What a page lacks, in words. `of_one`: a page about one thing, of which some parts may be empty."""
    main = page[page.index("<main") : page.index("</main>")]
    read = _Read()
    read.feed(main)
    found = [] if of_one else [f"empty: {' '.join(text.split())}" for text in read.empty]
    figures = [text.strip() for text in read.figures]
    if figures and set(figures) <= _ALL_THE_SAME:
        found.append("every figure is a dash")
    found += [
        f"a table of {len(cells)} dashes"
        for cells in read.cells
        if cells and {one.strip() for one in cells} <= _ALL_THE_SAME
    ]
    return found + [
        f"asks for a setting: {said[0]}" for said in _SETTING.finditer(re.sub(r"<[^>]+>", "", main))
    ]


NOT_OF_THE_DEMO = ("/router/settings", "/find")
"""What asks about a change, or for a thing, that somebody wrote."""


LISTS = {page.path for page in PAGES}


async def simulated(operator: Operator) -> dict[str, Any]:
    """The twin of Simulate for the settings in force, once it is computed."""
    end = time.monotonic() + 4 * PATIENCE_S
    while (told := await operator.json("/router/simulate"))["state"] == "computing":
        assert time.monotonic() < end, told
        await asyncio.sleep(0.5)
    return told


def promises_to_simulate(access: AdminAccess) -> bool:
    """Whether the demo says of its pages that they show what other settings would bring."""
    printed = io.StringIO()
    Screen(Console(file=printed, width=120), SETTINGS).next_steps("http://127.0.0.1:1", ("a", "b"), access)
    return "what other settings of the router would have brought" in printed.getvalue()


async def key_with_limits(operator: Operator) -> str:
    """The page of the key with limits. What it used is there to look at, of its limits too, and as CSV."""
    tenants: Any = (await operator.json("/tenants"))["tenants"]
    (tenant,) = (one["id"] for one in tenants if one["name"] == TENANT)
    keys: Any = (await operator.json(f"/tenants/{tenant}"))["keys"]
    (key,) = (one for one in keys if one["name"] == NAME)
    assert key["limited"] and key["expires_at_s"] and key["requests"] and key["cost_usd"]
    path = f"/keys/{key['id']}"
    use: Any = (await operator.json(path))["use"]
    assert {row["name"] for row in use} == {"Budget in total", "Requests per minute"}
    assert use[0]["used"] > 0, use
    for table in (f"/tenants/{tenant}.csv", f"{path}.csv"):
        rows = list(csv.DictReader((await operator.download(table)).decode("utf-8-sig").splitlines()))
        assert any(int(row["requests"]) > 0 for row in rows), rows
    return path


async def first_of_each(operator: Operator) -> list[str]:
    """Every page, and one thing of each page that is about one."""
    paths = [page.path for page in PAGES if "{" not in page.path and page.path not in NOT_OF_THE_DEMO]
    found = list(paths)
    for path in paths:
        link = re.search(
            rf'<main.*?href="({re.escape(path)}/[^"?#]+)[?"]', await operator.page(path), re.DOTALL
        )
        if link and link[1] not in (*paths, *NOT_OF_THE_DEMO):
            found.append(link[1])
    return found


async def finished(operator: Operator, access: AdminAccess) -> None:
    """Waits until replay, map and learning are through."""
    end = time.monotonic() + 4 * PATIENCE_S
    while time.monotonic() < end:
        runs = (await operator.json("/replay"))["runs"]
        drawn = (await operator.json("/examples-map"))["made_at_s"]
        if drawn and isinstance(runs, list) and runs and runs[0]["state"] in ("done", "stopped"):
            return
        await asyncio.sleep(0.5)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_every_page_has_something_to_show_after_the_demo(tmp_path: Path) -> None:
    printed = io.StringIO()
    screen = Screen(Console(file=printed, width=120), SETTINGS)
    password = await asyncio.to_thread(create_account, memory_folder(tmp_path))
    await asyncio.to_thread(create_keys, memory_folder(tmp_path), SETTINGS)
    async with running_gateway(gateway_config(SETTINGS, tmp_path), tmp_path) as gateway:
        access = await admin_access(gateway, password)
        assert access is not None
        results = await measure(SETTINGS, gateway, screen)
        await ask_about_documents(gateway, screen)
        await sort_some(SETTINGS, gateway, screen)
        await look_after(SETTINGS, gateway, access, screen)
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
            operator = Operator(http, access)
            await operator.sign_in()
            await finished(operator, access)
            told = await simulated(operator)
            found: dict[str, list[str]] = {}
            key = await key_with_limits(operator)
            for path in (*await first_of_each(operator), key):
                page, twin = await operator.page(path), await operator.json(path)
                found[path] = lacks(page, of_one=path not in LISTS)
                if path == key:
                    found[path] += lacks(page)
                if LIMITED_KEY in page or LIMITED_KEY in str(twin):
                    found[path].append("a key is shown")
    assert results.failed == 0, "no limit is reached"
    assert LIMITED_KEY not in printed.getvalue()
    assert {path: lacking for path, lacking in found.items() if lacking} == {}
    assert promises_to_simulate(access)
    assert told["state"] == "ready" and told["sentence"].startswith("As it is set now: "), told
    assert told["result"]["effect"]["requests"] > 100 and told["chart"]["traces"]
