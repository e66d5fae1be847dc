"""Pages whose store fails: what an operator asked for is a 503 that says why and what to do, and comes within seconds."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.admin.site import Person, Site, site
from tests.store.behind import database
from tests.store.rows import new_example

ACTIONS = {
    "hold": {"hold": "yes"},
    "edit": {"question": "What is it?", "answer": "It is another one."},
    "delete": {"really": "yes"},
    "pin": {"pinned": "yes"},
}


async def operator_with_an_example(pages: Site) -> tuple[Person, int]:
    example = pages.sources.store.examples.add(new_example(1)).result(60)
    return await pages.person("operator"), example.id


def torn(pages: Site, data: Path) -> None:
    database(pages.sources.store).scrub().result(60)
    with (data / "understudy.db").open("r+b") as file:
        file.write(b"\xff" * (data / "understudy.db").stat().st_size)


def gone(pages: Site, data: Path) -> None:
    shutil.rmtree(data)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("hurt", [torn, gone], ids=lambda hurt: hurt.__name__)
async def test_an_action_on_an_example_says_what_is_wrong_with_the_store(
    tmp_path: Path, action: str, hurt: Callable[[Site, Path], None]
) -> None:
    data = tmp_path / "data"
    async with site(data) as pages:
        operator, id = await operator_with_an_example(pages)
        hurt(pages, data)
        page = await operator.post(f"/examples/{id}/{action}", ACTIONS[action])
        assert page.status == 503 and int(page.headers["Retry-After"]) > 0
        assert page.headers["Content-Type"].startswith("text/html")
        assert "The store cannot be used just now" in page.text and "try again" in page.text
        assert "restore it" in page.text or "cannot be opened" in page.text or "disk I/O" in page.text
        twin = await operator.post(f"/examples/{id}/{action}", ACTIONS[action], Accept="application/json")
        assert twin.status == 503 and twin.json["error"]["code"] == "store"


@pytest.mark.slow
async def test_a_disk_that_is_full_is_told_in_words(tmp_path: Path) -> None:
    async with site(tmp_path) as pages:
        operator, id = await operator_with_an_example(pages)
        write = database(pages.sources.store).write
        write(lambda connection: connection.execute("PRAGMA max_page_count = 1")).result(60)
        long = {"question": "What is it?" * 4000, "answer": "It is another one."}
        page = await operator.post(f"/examples/{id}/edit", long)
        assert page.status == 503 and "disk full" in page.text


@pytest.mark.slow
async def test_a_store_that_another_process_has_locked_is_waited_for_some_seconds_only(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as pages:
        operator, id = await operator_with_an_example(pages)
        other = sqlite3.connect(tmp_path / "understudy.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        page = await operator.post(f"/examples/{id}/hold", ACTIONS["hold"])
        assert time.monotonic() - began < 20.0
        assert page.status == 503 and "may yet be done" in page.text
        other.execute("ROLLBACK")
        other.close()
