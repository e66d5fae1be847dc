"""The list of requests: what real traffic left, found by filters and words, and no word of it for who may not read."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from admin.words import REASONS
from tests.admin.site import Person
from tests.admin.traffic import ALIKE, HOSTILE, QUESTION, UNLIKE, house


async def rows(person: Person, query: str = "") -> list[dict[str, object]]:
    got = await person.get(f"/requests.json?{query}")
    assert got.status == 200, got.text
    found = got.json["rows"]
    assert isinstance(found, list)
    return found


async def test_requests_are_listed_with_what_became_of_them_newest_first(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        asked = [await here.ask(QUESTION), await here.ask(ALIKE), await here.ask(QUESTION)]
        reader = await here.site.person("viewer-content")
        found = await rows(reader)
        assert [row["id"] for row in found] == asked[::-1]
        assert [row["way"] for row in found] == ["exact", "few_shot", "direct"]
        assert [row["question"] for row in found] == [QUESTION, ALIKE, QUESTION]
        assert [row["engine"] for row in found] == ["", "small", "large"]
        assert all(row["reason"] in REASONS for row in found)
        for query, wanted in (
            ("way=few_shot", asked[1:2]),
            ("way=direct", asked[:1]),
            ("way=offloaded", asked[1:2]),
            ("way=reference", asked[:1]),
            ("way=hit", asked[2:]),
            ("engine=large", asked[:1]),
            ("model=gpt-4o&status=2&within=hour", asked[::-1]),
            ("q=hidden+linux", [asked[1], asked[0], asked[2]]),
            ("q=opera", []),
            ("q=list&engine=small", asked[1:2]),
            ("to=2020-01-01T00:00", []),
            ("cost=5", []),
        ):
            assert [row["id"] for row in await rows(reader, query)] == wanted, query
        shown = await reader.get("/requests?q=hidden")
        assert shown.status == 200 and ALIKE in shown.text and "cache hit" in shown.text


async def test_no_word_of_anybody_reaches_a_role_that_may_not_read(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        here.large.says = "The secret word is xylophone."
        await here.ask(UNLIKE)
        viewer = await here.site.person("viewer")
        for path in ("/requests", "/requests.json"):
            got = await viewer.get(path)
            assert got.status == 200 and "opera" not in got.text and "xylophone" not in got.text
        assert [row["question"] for row in await rows(viewer)] == [None]
        for path in ("/requests?q=opera", "/requests.json?q=opera"):
            refused = await viewer.get(path)
            assert refused.status == 400, "that a word is found tells that it was written"


async def test_what_was_written_to_attack_the_reader_stays_text(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        here.large.says = "</pre><script>alert('answered')</script>"
        id = await here.ask(HOSTILE)
        reader = await here.site.person("operator")
        for path in (
            "/requests",
            f"/requests/{id}",
            "/requests?q=" + quote(HOSTILE),
            "/examples",
            "/examples/1",
        ):
            got = await reader.get(path)
            assert got.status == 200, path
            assert "<script>alert" not in got.text and "<img src=x" not in got.text, path


async def test_parameters_that_mean_nothing_are_refused_by_name(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        person = await here.site.person("viewer-content")
        for query, named in (
            ("status=abc", "status"),
            ("way=sideways", "way"),
            ("from=yesterday", "from"),
            ("before=x-1", "before"),
            ("before=w-3", "before"),
            ("q=a&before=t-1.0-2", "before"),
            ("cost=much", "cost"),
        ):
            got = await person.get(f"/requests.json?{query}")
            assert got.status == 400 and got.json["error"]["message"].startswith(named), query


async def test_pages_follow_each_other(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        asked = [await here.ask(QUESTION) for _ in range(53)]
        person = await here.site.person("viewer-content")
        first = (await person.get("/requests.json")).json
        second = (await person.get("/requests.json?" + first["older"])).json
        assert [row["id"] for row in first["rows"] + second["rows"]] == asked[::-1]
        assert second["older"] is None and not second["first_page"] and first["newer"] is None
        again = (await person.get("/requests.json?" + second["newer"])).json
        assert again["first_page"] and again["rows"] == first["rows"]
        place = f"way=&engine=large&before=t-{first['rows'][2]['at_s']!r}-1"
        page = await person.get("/requests?" + place)
        assert page.status == 200 and 'rel="prev"' in page.text and "engine=large&amp;after=t-" in page.text


async def test_the_list_is_a_file_for_a_spreadsheet_that_runs_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.ask('=HYPERLINK("http://evil")', user="+1 555")
        reader, viewer = await here.site.person("viewer-content"), await here.site.person("viewer")
        got = await reader.get("/requests.csv?within=hour")
        assert got.status == 200 and "'=HYPERLINK" in got.text and ",=HYPERLINK" not in got.text
        assert "HYPERLINK" not in (await viewer.get("/requests.csv")).text
