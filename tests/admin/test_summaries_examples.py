"""The bank as people see it: found by words and likeness, changed by who may, and never a word to who may not read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.admin.traffic import ALIKE, QUESTION, UNLIKE, House, house

BARBER = "Rossini wrote The Barber of Seville."


async def filled(here: House) -> tuple[int, int]:
    """Two examples: of QUESTION and of UNLIKE."""
    await here.ask(QUESTION)
    here.large.says = BARBER
    await here.ask(UNLIKE)
    one, two = here.site.sources.store.examples.page("default")
    return one.id, two.id


async def test_examples_are_found_by_words_by_likeness_and_by_what_they_are(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        files, opera = await filled(here)
        await here.ask(ALIKE)
        reader = await here.site.person("viewer-content")

        async def found(query: str) -> list[int]:
            got = await reader.get(f"/examples.json?{query}")
            assert got.status == 200, got.text
            return [row["id"] for row in got.json["rows"]]

        assert await found("") == [opera, files] and await found("sort=oldest") == [files, opera]
        assert await found("q=rossini") == [opera] and await found("q=nothing+like+it") == []
        assert await found("near=show+hidden+files+on+linux") == [files, opera]
        assert await found("which=pinned") == [] and await found("which=observed&q=linux") == [files]
        store = here.gate.gateway.memory
        assert store is not None
        await asyncio.to_thread(lambda: (written := store.store.examples.flush_uses()) and written.result(30))
        assert await found("sort=uses") == [files, opera] and await found("sort=gain") == [files]
        page = await reader.get("/examples?near=show+hidden+files")
        assert page.status == 200 and QUESTION in page.text
        for path in ("/examples?q=a&near=b", "/examples?sort=sideways", "/examples?skip=-1"):
            assert (await reader.get(path)).status == 400


async def test_one_example_says_where_it_came_from_and_where_it_was_used(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        files, opera = await filled(here)
        used_by = await here.ask(ALIKE)
        operator = await here.site.person("operator")
        await operator.post(f"/requests/{used_by}/feedback", {"score": "0.75"})
        told = (await operator.get(f"/examples/{files}.json")).json
        assert [(use["id"], use["quality"]) for use in told["used"]] == [(used_by, 0.75)]
        assert (
            told["from_request"] and (await operator.get(f"/requests/{told['from_request']}")).status == 200
        )
        assert [row["id"] for row in told["near"]] == [opera] and told["answer"] == "Use ls -a."
        page = await operator.get(f"/examples/{files}")
        assert page.status == 200 and "Quarantine" in page.text
        for path in ("/examples/0", "/examples/999999", "/examples/x", "/examples/99999999999999999999999"):
            assert (await operator.get(path)).status == 404


async def test_no_word_of_an_example_reaches_a_role_that_may_not_read(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        files, _ = await filled(here)
        viewer = await here.site.person("viewer")
        for path in ("/examples", "/examples.json", f"/examples/{files}", f"/examples/{files}.json"):
            got = await viewer.get(path)
            assert got.status == 200
            assert "Linux" not in got.text and "Rossini" not in got.text and "ls -a" not in got.text, path
        for path in ("/examples?q=linux", "/examples.json?near=linux"):
            assert (await viewer.get(path)).status == 400
        for action in ("edit", "pin", "hold", "delete"):
            assert (await viewer.post(f"/examples/{files}/{action}")).status == 403


async def test_what_is_quarantined_answers_nobody_until_it_is_let_go(tmp_path: Path) -> None:
    async with house(tmp_path, memory={"exact": {"enabled": False}}) as here:
        files, _ = await filled(here)
        operator = await here.site.person("operator")

        async def sent() -> str:
            got = await here.gate.chat(ALIKE, {"Cache-Control": "no-store"})
            return str(got.headers["x-understudy-examples"])

        assert await sent() == "1"
        assert (await operator.post(f"/examples/{files}/hold", {"hold": "yes"})).status == 303
        assert await sent() == "0"
        assert (await operator.get(f"/examples/{files}.json")).json["held"] == "by hand"
        assert [row["id"] for row in (await operator.get("/examples.json?which=held_back")).json["rows"]] == [
            files
        ]
        # The same question is asked again, and the same engine says the same: kept, but not served.
        here.large.says = "Use ls -a."
        await here.ask(QUESTION)
        await here.gate.settled()
        assert await sent() == "0"
        told = (await operator.get(f"/examples/{files}.json")).json
        assert told["held"] == "by hand" and told["merged"] == 1
        await operator.post(f"/examples/{files}/hold", {"hold": "no"})
        assert await sent() == "1"


async def test_the_order_and_the_number_of_what_is_found_are_named_truly(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await filled(here)
        reader = await here.site.person("viewer-content")

        async def told(query: str) -> tuple[object, ...]:
            got = (await reader.get(f"/examples.json?{query}")).json
            return got["sort"], got["first"], got["last"], got["matches"], got["total"]

        assert await told("") == ("newest", 1, 2, 2, 2)
        assert await told("q=rossini&sort=oldest") == ("relevance", 1, 1, 1, 2)
        assert await told("near=hidden+files") == ("similarity", 1, 2, 2, 2)
        assert await told("q=nothing+like+it") == ("relevance", 0, 0, 0, 2)
        page = (await reader.get("/examples?q=rossini")).text
        assert "1 to 1 of 1 that match, by relevance." in page and "best match</option>" in page
        assert ">newest</option>" not in page


async def test_several_examples_are_changed_at_once_and_deleted_after_a_look(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        files, opera = await filled(here)
        operator = await here.site.person("operator")
        ids = [("id", str(files)), ("id", str(opera))]
        for do, which in (("quarantine", "held_back"), ("pin", "pinned")):
            done = await operator.post("/examples/bulk", [*ids, ("do", do)])
            assert done.status == 303, done.text
            assert "2 of 2 examples" in (await operator.get(done.headers["Location"])).text
            assert len((await operator.get(f"/examples.json?which={which}")).json["rows"]) == 2
        await operator.post("/examples/bulk", {"id": str(files), "do": "release"})
        assert [r["id"] for r in (await operator.get("/examples.json?which=held_back")).json["rows"]] == [
            opera
        ]
        look = await operator.post("/examples/bulk", [*ids, ("do", "delete")])
        assert "Nothing is deleted yet" in look.text and "2 pinned" in look.text
        assert (await operator.get("/examples.json")).json["total"] == 2
        await operator.post("/examples/bulk", [*ids, ("do", "delete"), ("really", "yes")])
        assert (await operator.get("/examples.json")).json["total"] == 0
        for fields in ([("do", "delete")], [*ids, ("do", "nothing")], [*ids, ("do", "pin")]):
            assert (await operator.post("/examples/bulk", fields)).status == 400
        viewer = await here.site.person("viewer-content")
        assert (await viewer.post("/examples/bulk", [*ids, ("do", "pin")])).status == 403


async def test_the_second_of_two_who_edit_an_example_is_told(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        files, _ = await filled(here)
        operator = await here.site.person("operator")
        version = (await operator.get(f"/examples/{files}.json")).json["text_version"]
        new = {"question": QUESTION, "answer": "Use ls -A.", "version": version}
        assert (await operator.post(f"/examples/{files}/edit", new)).status == 303
        late = await operator.post(f"/examples/{files}/edit", new | {"answer": "Use dir."})
        assert late.status == 409 and "changed meanwhile" in late.text and "Use dir.</textarea>" in late.text
        assert (await operator.get(f"/examples/{files}.json")).json["answer"] == "Use ls -A."


async def test_an_edited_example_is_found_by_what_it_says_now(tmp_path: Path) -> None:
    async with house(tmp_path, memory={"exact": {"enabled": False}}) as here:
        files, opera = await filled(here)
        operator = await here.site.person("operator")
        new = {"question": "How deep is the lake of Zug?", "answer": "198 metres, says ann@acme.com."}
        assert (await operator.post(f"/examples/{files}/edit", new)).status == 303
        told = (await operator.get(f"/examples/{files}.json")).json
        assert told["answer"] == "198 metres, says [EMAIL]." and told["question"] == new["question"]
        async with asyncio.timeout(20):
            while True:
                got = await here.gate.chat(
                    "How deep is the lake of Zug, please?", {"Cache-Control": "no-store"}
                )
                if got.headers["x-understudy-examples"] == "1":
                    break
                await asyncio.sleep(0.05)
        secret = {
            "question": "Q?",
            "answer": "AKIAIOSFODNN7EXAMPLQ aws_secret_access_key=wJalrXUtnFEMI/K7MDENG/bPxRfiCYzz",
        }
        refused = await operator.post(f"/examples/{opera}/edit", secret)
        assert refused.status == 409 and refused.text.count("AKIA") == 1, "in the field it was written into"
        assert (await operator.post(f"/examples/{opera}/edit", {"question": "", "answer": "A"})).status == 400
        assert (await operator.get(f"/examples/{opera}.json")).json["answer"] == BARBER


async def test_deleting_shows_first_what_would_go(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        files, opera = await filled(here)
        operator = await here.site.person("operator")
        await operator.post(f"/examples/{files}/pin", {"pinned": "yes"})
        shown = await operator.post(f"/examples/{files}/delete")
        assert shown.status == 200 and "Nothing is deleted yet" in shown.text and "it is pinned" in shown.text
        assert (await operator.get(f"/examples/{files}")).status == 200
        assert (await operator.post(f"/examples/{files}/delete", {"really": "yes"})).status == 303
        assert (await operator.get(f"/examples/{files}")).status == 404
        assert [row["id"] for row in (await operator.get("/examples.json")).json["rows"]] == [opera]
        audit = (await operator.get("/audit.json")).json["rows"]
        assert [(row["action"], row["target"]) for row in audit[:3]] == [
            ("/examples/{id}/delete", str(files)),
            ("/examples/{id}/delete", str(files)),
            ("/examples/{id}/pin", str(files)),
        ]


@pytest.mark.parametrize("path", ["/examples", "/examples.json", "/requests", "/requests.json"])
async def test_an_empty_store_has_pages_that_say_what_to_do(tmp_path: Path, path: str) -> None:
    async with house(tmp_path) as here:
        got = await (await here.site.person("viewer")).get(path)
        assert got.status == 200
        if not path.endswith(".json"):
            assert "understudy" in got.text and 'class="empty"' in got.text
