"""Sessions: requests that belong together are listed and read together."""

from __future__ import annotations

from pathlib import Path

from tests.admin.traffic import QUESTION, UNLIKE, house

ANSWERED = {"role": "assistant", "content": "Use ls -a."}


async def test_requests_of_one_conversation_are_one_session(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        named = {"x-understudy-session": "trip-7"}
        asked = [{"role": "user", "content": QUESTION}]
        first = await here.ask(asked)
        second = await here.ask([*asked, ANSWERED, {"role": "user", "content": "And as a tree?"}])
        third = await here.ask(UNLIKE, named)
        reader, viewer = await here.site.person("viewer-content"), await here.site.person("viewer")
        rows = (await reader.get("/sessions.json")).json["rows"]
        assert [(row["name"], row["by"], row["requests"], row["last_request"]) for row in rows] == [
            ("trip-7", "name", 1, third),
            (None, "beginning", 2, second),
        ]
        only = (await reader.get("/sessions.json?least=2")).json["rows"]
        assert [row["id"] for row in only] == [rows[1]["id"]]
        page = await reader.get(rows[1]["path"])
        assert page.status == 200 and first in page.text and second in page.text and third not in page.text
        told = (await reader.get(rows[1]["path"] + ".json")).json
        assert [row["id"] for row in told["rows"]] == [second, first] and not told["more"]
        listed = (await reader.get(f"/requests.json?session={rows[1]['id']}")).json["rows"]
        assert [row["id"] for row in listed] == [second, first]
        for path in ("/sessions", "/sessions.csv", rows[0]["path"], rows[0]["path"] + ".csv"):
            got = await viewer.get(path)
            assert got.status == 200 and "trip-7" not in got.text and "opera" not in got.text, path
        assert (await reader.get("/sessions?before=x")).status == 400
        gone = await reader.get("/sessions/default/nothing")
        assert gone.status == 404 and "No request of this session" in gone.text
