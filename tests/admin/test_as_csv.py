"""Lists as CSV: the rows of a page, harmless in a spreadsheet."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from admin.as_csv import as_csv
from admin.pages import PAGES
from tests.admin.site import site


def read(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))


def test_rows_have_every_name_once_and_values_as_they_are() -> None:
    rows = [{"a": 1, "b": None}, {"a": -0.5, "c": True, "d": {"x": [1]}}, {"a": 'quoted "text",\nnext'}]
    assert read(as_csv(rows)) == [
        ["a", "b", "c", "d"],
        ["1", "", "", ""],
        ["-0.5", "", "true", '{"x":[1]}'],
        ['quoted "text",\nnext', "", "", ""],
    ]
    assert read(as_csv([])) == [[]]


def test_nothing_is_a_formula() -> None:
    hostile = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "  =cmd|' /C calc'!A0", "\u202e=1", "\uff1d1", "\n=1"]
    for row in read(as_csv([{text: text} for text in hostile]))[1:]:
        text = next(cell for cell in row if cell)
        assert text.startswith(("'", "\\u202e")), text
    assert "'=" in read(as_csv([{"=x": 1}]))[0][0]


def test_every_page_of_a_list_has_its_rows_as_csv() -> None:
    lists = {page.path for page in PAGES if any(each.path.startswith(page.path + "/{") for each in PAGES)}
    others = {"/overview", "/trends", "/settings", "/cache", "/review", "/datasets", "/accounts", "/audit"}
    assert {page.path for page in PAGES if page.csv} >= lists | others


async def test_every_page_with_rows_serves_them_to_whom_the_page_is_served(tmp_path: Path) -> None:
    async with site(tmp_path) as pages:
        operator, stranger = await pages.person("operator"), pages.stranger()
        for page in PAGES:
            if not page.csv or "{" in page.path:
                continue
            assert (await stranger.get(page.path + ".csv")).status == 303
            got = await operator.get(page.path + ".csv")
            assert got.status == 200 and got.headers["Content-Type"].startswith("text/csv"), page.path
            assert f'href="{page.path}.csv"' in (await operator.get(page.path)).text
        assert (await operator.get("/help.csv")).text.splitlines()[0].endswith("term,means")
