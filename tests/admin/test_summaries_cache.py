"""The cache as people see it: its entries with their age and hits, and a purge that counts before it deletes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.admin.site import Person, site
from tests.admin.traffic import QUESTION, UNLIKE, House, house
from tests.flow.test_line_keys import new_key


async def filled(here: House) -> tuple[str, Person]:
    """QUESTION, asked three times, and UNLIKE, once; gives the id of the first and an operator."""
    first = await here.ask(QUESTION)
    for _ in range(2):
        assert (await here.gate.chat(QUESTION)).hit
    await here.ask(UNLIKE)
    memory = here.gate.gateway.memory
    assert memory is not None
    written = memory.store.answers.exact.flush_uses()
    assert written is not None
    written.result(30)
    return first, await here.site.person("operator")


async def test_entries_tell_their_question_age_and_hits(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        first, operator = await filled(here)
        told = (await operator.get("/cache.json")).json
        assert (told["totals"]["entries"], told["totals"]["hits"]) == (2, 2)
        assert [row["question"] for row in told["rows"]] == [UNLIKE, QUESTION]
        assert told["rows"][1]["request"] == first and told["rows"][1]["age_s"] >= 0
        assert [row["hits"] for row in told["rows"]] == [0, 2]
        most = (await operator.get("/cache.json?sort=hits&tenant=default")).json
        assert [row["question"] for row in most["rows"]] == [QUESTION]
        page = await operator.get("/cache")
        assert page.status == 200 and QUESTION in page.text and f"/requests/{first}" in page.text
        assert (await operator.get("/cache.csv")).text.count("\n") >= 3
        assert (await operator.get("/cache?sort=sideways")).status == 400
        viewer = await here.site.person("viewer")
        for path in ("/cache", "/cache.json", "/cache.csv"):
            got = await viewer.get(path)
            assert got.status == 200 and "Linux" not in got.text and "Purge…" not in got.text


@pytest.mark.parametrize(("what", "left"), [("entry", 1), ("request", 1), ("tenant", 0), ("all", 0)], ids=str)
async def test_a_purge_counts_first_and_then_no_gateway_gives_the_answer(
    tmp_path: Path, what: str, left: int
) -> None:
    async with house(tmp_path) as here:
        first, operator = await filled(here)
        entry = (await operator.get("/cache.json")).json["rows"][1]["id"]
        of = {"entry": str(entry), "request": first, "tenant": "default", "all": ""}[what]
        look = await operator.post("/cache/purge", {"what": what, "of": of})
        assert f"<dt>Answers to identical requests</dt><dd>{2 - left}</dd>" in look.text
        assert (await operator.get("/cache.json")).json["totals"]["entries"] == 2
        await operator.post("/cache/purge", {"what": what, "of": of, "really": "yes"})
        assert (await operator.get("/cache.json")).json["totals"]["entries"] == left
        got = await here.gate.chat(QUESTION, {"Cache-Control": "no-store"})
        assert not got.hit
        audit = (await operator.get("/audit.json")).json["rows"]
        assert [row["action"] for row in audit[:2]] == ["/cache/purge"] * 2


async def test_what_was_first_given_to_a_key_is_purged_by_the_key(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        asked = []
        for _ in range(2):
            secret = await new_key(here.gate, "acme")
            # Of one tenant, so that each key needs a question of its own.
            question = UNLIKE if asked else QUESTION
            asked.append(await here.ask(question, {"Authorization": f"Bearer {secret}"}))
        operator = await here.site.person("operator")
        keys = {key.id for key in here.site.sources.store.keys.list()}
        purged = here.site.sources.store.decisions.requests.get(asked[0])
        assert purged is not None and purged.key_id in keys and len(keys) == 2
        await operator.post("/cache/purge", {"what": "key", "of": purged.key_id, "really": "yes"})
        rows = (await operator.get("/cache.json")).json["rows"]
        assert [row["request"] for row in rows] == asked[1:]


async def test_what_names_nothing_is_refused_or_purges_nothing(tmp_path: Path) -> None:
    async with site(tmp_path) as pages:
        operator, viewer = await pages.person("operator"), await pages.person("viewer-content")
        empty = await operator.get("/cache")
        assert "The cache is empty" in empty.text and (await operator.get("/cache.json")).json["rows"] == []
        for fields in ({}, {"what": "request"}, {"what": "entry", "of": "x"}, {"what": "sideways"}):
            assert (await operator.post("/cache/purge", fields)).status == 400
        assert (await operator.post("/cache/purge", {"what": "key", "of": "key_none"})).status == 404
        for of in ("nothing", "<script>alert(1)</script>"):
            look = await operator.post("/cache/purge", {"what": "request", "of": of})
            assert "Nothing to purge" in look.text and "<script>alert" not in look.text
        assert (await viewer.post("/cache/purge", {"what": "all"})).status == 403
