"""One box finds a request by any id of it, what it belongs to, and words; who may not read finds by ids only."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from tests.admin.site import Person
from tests.admin.traffic import ALIKE, QUESTION, house
from tests.flow.test_line_keys import new_key


async def goes(person: Person, text: str) -> str:
    """Where the box leads; empty: to its own page."""
    got = await person.get("/find?q=" + quote(text, safe=""))
    assert got.status in (200, 303), got.text
    return got.headers.get("Location", "")


async def test_every_id_of_a_request_leads_to_it(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        got = await here.gate.chat(QUESTION)
        id, completion = got.headers["x-understudy-decision-id"], got.json["id"]
        for role in ("viewer", "operator"):
            person = await here.site.person(role)
            for text in (id, id[:10], id.upper(), f"  {id} ", completion):
                assert await goes(person, text) == f"/requests/{id}", (role, text)
        assert await goes(await here.site.person("viewer"), "#1") == "/examples/1"
        assert (await (await here.site.person("viewer")).get(f"/find.json?q={id}")).json[
            "to"
        ] == f"/requests/{id}"


async def test_sessions_end_users_keys_and_tenants_are_found_by_their_names(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        key = {"Authorization": f"Bearer {await new_key(here.gate, 'acme')}"}
        id = await here.ask(QUESTION, {**key, "x-understudy-session": "trip-7"}, user="ann@example.org")
        reader, viewer = await here.site.person("viewer-content"), await here.site.person("viewer")
        told = (await reader.get(f"/requests/{id}.json")).json
        assert await goes(reader, "trip-7") == told["session"]["path"]
        assert await goes(viewer, told["session"]["id"]) == told["session"]["path"]
        users = await goes(reader, "ann@example.org")
        assert users.startswith("/requests?user=") and id in (await reader.get(users)).text
        assert id in (await reader.get("/requests?user=ann@example.org")).text
        tenant = await goes(viewer, "acme")
        assert tenant.startswith("/tenants/") and (await viewer.get(tenant)).status == 200
        (made,) = here.site.sources.store.keys.list()
        assert await goes(viewer, made.id) == f"/keys/{made.id}"
        assert (await reader.get(f"/keys/{made.id}")).status == 200
        for name in ("trip-7", "ann@example.org"):
            got = await viewer.get(f"/find?q={name}")
            assert got.status == 200 and told["session"]["id"] not in got.text, (
                "that it is found tells that it is there"
            )
        assert (await viewer.get("/requests?user=ann@example.org")).status == 400
        assert (await reader.get("/requests.json?user=nobody-like-that")).json["rows"] == []


async def test_words_lead_to_the_requests_that_have_them_for_who_may_read(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.ask(ALIKE)
        reader, viewer = await here.site.person("viewer-content"), await here.site.person("viewer")
        to = await goes(reader, "hidden linux")
        assert to == "/requests?q=hidden+linux" and ALIKE in (await reader.get(to)).text
        assert await goes(viewer, "hidden linux") == ""
        assert "finds by ids only" in (await viewer.get("/find?q=hidden+linux")).text
        assert (await reader.get("/find")).status == 200
        assert (await reader.get("/find?q=" + "x" * 1500)).status == 400
        hostile = await reader.get("/find.json?q=" + quote("\0<script>alert(1)"))
        assert hostile.status in (200, 400) and await goes(reader, "<script>") == "/requests?q=%3Cscript%3E"
