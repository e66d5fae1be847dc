"""Applications that are found in plain calls, from the texts that are kept."""

from __future__ import annotations

from pathlib import Path

from admin.pages.runs import APPLICATIONS
from admin.roles import Role
from admin.summaries.applications import applications
from store.decisions.texts import RequestTexts
from tests.admin.site import Site, site
from tests.store.rows import request_record

ANSWER = (
    "The program has two modules. The first reads the orders of a day.\nThe second adds them up by customer."
)


def keep(pages: Site, number: int, text: str, answer: str, key: str = "k1") -> None:
    store = pages.sources.store
    store.decisions.requests.record(request_record(number, key_id=key)).result(30)
    messages = ({"role": "system", "text": "You are <b>a team</b>."}, {"role": "user", "text": text})
    kept = RequestTexts("a1", f"req-{number}", "", 1000.0 + number, text, answer, messages)
    store.decisions.texts.keep(kept).result(30)


def test_who_may_only_look_may_look() -> None:
    assert APPLICATIONS.role is Role.VIEWER and APPLICATIONS.summary is applications


async def test_calls_that_read_each_other_are_shown_to_who_may_read_what_they_say(tmp_path: Path) -> None:
    async with site(tmp_path, applications={"infer": "show"}) as pages:
        assert "None found" in (await (await pages.person("viewer")).get("/applications")).text
        keep(pages, 1, "Design.", ANSWER)
        keep(pages, 2, f"Write it:\n{ANSWER}", "x = 1")
        keep(pages, 3, f"Write it:\n{ANSWER}", "x = 1", key="k2")
        operator, viewer = await pages.person("operator"), await pages.person("viewer")
        (found,) = (await operator.get("/applications.json")).json["rows"]
        assert found["name"] == "You are <b>a team</b>." and found["tenant"] == "a1"
        assert (found["times"], found["calls"], found["depth"], found["edges"]) == (1, 2, 2, 1)
        assert (found["key_id"], found["last_request"]) == ("k1", "req-2")
        assert (await viewer.get("/applications.json")).json["rows"][0]["name"] is None
        page = (await operator.get("/applications")).text
        assert "<b>a team" not in page and "Calls each" in page


async def test_nothing_is_looked_for_unless_that_is_wanted(tmp_path: Path) -> None:
    async with site(tmp_path) as pages:
        keep(pages, 1, "Design.", ANSWER)
        keep(pages, 2, f"Write it:\n{ANSWER}", "x = 1")
        viewer = await pages.person("viewer")
        assert (await viewer.get("/applications.json")).json["rows"] == []
        assert "applications.infer: show" in (await viewer.get("/applications")).text
        assert 'href="/applications"' in (await viewer.get("/runs")).text
