"""Saved views of the list of requests: a name for filters, for everybody who signs in, changed by operators only."""

from __future__ import annotations

import re
from pathlib import Path

import aiohttp
import pytest

from tests.admin.api.conftest import Program
from tests.admin.site import site
from tests.admin.traffic import QUESTION, house

SAVE, DELETE = "/requests/views/save", "/requests/views/delete"
SLOW = "slow failures of team-a"


async def test_an_operator_saves_filters_that_all_see_and_deletes_them(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.ask(QUESTION)
        operator, viewer = await here.site.person("operator"), await here.site.person("viewer")
        assert SAVE in (await operator.get("/requests?way=failed")).text
        assert SAVE not in (await operator.get("/requests")).text, "there is nothing to be saved"
        saved = await operator.post(SAVE, {"view": f" {SLOW} ", "filters": "within=day&way=failed"})
        assert (saved.status, saved.headers["Location"]) == (303, "/requests?within=day&way=failed")
        shown = await viewer.get("/requests")
        assert f'href="/requests?within=day&amp;way=failed" title="Saved by a-operator">{SLOW}<' in shown.text
        opened = await viewer.get("/requests?within=day&way=failed")
        assert 'aria-current="page" title="Saved by' in opened.text
        assert SAVE not in opened.text and DELETE not in opened.text, "a viewer uses views, and changes none"
        again = await operator.post(SAVE, {"view": SLOW, "filters": "way=failed&status=5"})
        assert again.status == 303
        assert [(v.name, v.filters) for v in here.site.sources.store.saved_views.list()] == [
            (SLOW, "way=failed&status=5")
        ]
        deleted = await operator.post(DELETE, {"view": SLOW})
        assert deleted.status == 303 and SLOW not in (await viewer.get("/requests")).text
        assert (await operator.post(DELETE, {"view": SLOW})).status == 404
        rows = [row for row in here.site.sources.store.audit.page() if row.action.startswith("views/")]
        assert [(row.action, row.outcome, row.target) for row in rows] == [
            ("views/delete", "failed", ""),
            ("views/delete", "done", SLOW),
            ("views/save", "done", SLOW),
            ("views/save", "done", SLOW),
        ]
        assert rows[2].detail == {"filters": {"old": "within=day&way=failed", "new": "way=failed&status=5"}}


async def test_views_are_changed_by_operators_own_forms_only(tmp_path: Path) -> None:
    async with site(tmp_path) as made:
        sent = {"view": SLOW, "filters": "way=failed"}
        for role in ("viewer", "viewer-content"):
            person = await made.person(role)
            assert (await person.post(SAVE, sent)).status == 403
            assert (await person.post(DELETE, sent)).status == 403
        operator = await made.person("operator")
        assert (await operator.post(SAVE, sent, Origin="https://elsewhere.example")).status == 403
        operator.form_token = "0" * 64
        assert (await operator.post(SAVE, sent)).status == 403
        assert made.sources.store.saved_views.list() == []


@pytest.mark.parametrize(
    ("name", "filters", "said"),
    [
        ("", "way=failed", "view"),
        ("a\u202eb", "way=failed", "printable"),
        ("n" * 201, "way=failed", "view"),
        ("one", "", "has no filters"),
        ("one", "colour=red", "no filter"),
        ("one", "way=sideways", "way is"),
        ("one", "from=yesterday", "from is"),
        ("one", "user=nobody-of-that-name", "nobody whose requests"),
    ],
)
async def test_what_is_no_name_or_no_filter_is_refused(
    tmp_path: Path, name: str, filters: str, said: str
) -> None:
    async with site(tmp_path) as made:
        operator = await made.person("operator")
        got = await operator.post(SAVE, {"view": name, "filters": filters}, Accept="application/json")
        assert got.status == 400 and said in got.text
        assert made.sources.store.saved_views.list() == []


async def test_words_of_a_view_are_for_who_may_read_content(tmp_path: Path) -> None:
    async with site(tmp_path) as made, aiohttp.ClientSession() as session:
        operator = await made.person("operator")
        await operator.post(SAVE, {"view": "complaints", "filters": "q=my+lawyer&status=2"})
        reader, viewer = await made.person("viewer-content"), await made.person("viewer")
        assert "complaints" in (await reader.get("/requests")).text
        for path in ("/requests", "/requests.json"):
            got = (await viewer.get(path)).text
            assert "complaints" not in got and "lawyer" not in got
        assert "lawyer" not in str(made.sources.store.audit.page()), "words may be content"
        tokens = made.sources.store.admin_tokens
        for role, seen in (("viewer", []), ("operator", ["complaints"])):
            program = Program(made.url, session, tokens.create(role, role)[1])
            got_rows = (await program("GET", "/api/views")).json["data"]
            assert [view["name"] for view in got_rows] == seen


async def test_the_admin_api_keeps_the_same_views(tmp_path: Path) -> None:
    async with site(tmp_path) as made, aiohttp.ClientSession() as session:
        program = Program(made.url, session, made.sources.store.admin_tokens.create("ci", "operator")[1])
        path = "/api/views/slow%20ones"
        first = await program("PUT", path, {"filters": "status=5&within=hour"})
        assert first.status == 201 and first.json["filters"] == "within=hour&status=5"
        assert (await program("PUT", path, {"filters": "status=5&within=hour"})).status == 200
        assert (await program("PUT", path, {"filters": "x=1"})).json["code"] == "invalid"
        assert [view["saved_by"] for view in (await program("GET", "/api/views")).json["data"]] == [
            "token:ci"
        ]
        viewer = await made.person("viewer")
        assert re.search("slow ones", (await viewer.get("/requests")).text)
        assert (await program("DELETE", path)).json == {"name": "slow ones"}
        assert (await program("DELETE", path)).status == 404
