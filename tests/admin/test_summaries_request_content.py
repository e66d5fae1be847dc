"""What a request leaves behind is on its page, and withheld from who may not read: errors, attempts, parameters, tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aiohttp import web

from admin.words import ERRORS, NO_TEXT
from tests.admin.traffic import ALIKE, QUESTION, house
from tests.flow.line import Asked, completion
from tests.store.rows import request_record

TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Now.", "parameters": {"type": "object"}},
}
HOSTILE = "<script>alert('x')</script>\u202eevil"


async def refuses(request: web.Request, asked: Asked) -> web.StreamResponse:
    error = {"message": f"the disk is full {HOSTILE}", "type": "server_error", "param": None, "code": None}
    return web.json_response({"error": error}, status=503)


async def test_a_failure_shows_its_error_its_attempts_and_its_prompt(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        here.large.script = here.small.script = refuses
        got = await here.gate.chat(QUESTION)
        assert got.status == 503
        id = got.headers["x-understudy-decision-id"]
        reader, viewer = await here.site.person("viewer-content"), await here.site.person("viewer")
        told = (await reader.get(f"/requests/{id}.json")).json
        assert told["answered_by"] == "" and told["error"]["kind"] == "server" and told["error"]["meaning"]
        assert {one["engine"] for one in told["attempts"]} == {"large", "small"}
        assert all("the disk is full" in one["error"] and one["status"] == 503 for one in told["attempts"])
        drawn = [one for one in told["stages"]["rows"] if one["bar"]["phase"] == "failed"]
        assert len(drawn) == len(told["attempts"])
        assert [one["bar"]["x"] for one in drawn] == sorted(one["bar"]["x"] for one in drawn)
        assert told["texts"]["messages"][0]["text"] == QUESTION and told["no_text"] is None
        page = (await reader.get(f"/requests/{id}")).text
        assert "the disk is full" in page and QUESTION in page and "<b>nobody</b>" in page
        assert "<script>alert" not in page and "\u202e" not in page
        assert "It opted out" not in page
        for path in (f"/requests/{id}", f"/requests/{id}.json"):
            withheld = (await viewer.get(path)).text
            assert "disk is full" not in withheld and "directory" not in withheld and "server" in withheld


async def test_a_failure_without_texts_gives_the_one_reason_that_there_are_none(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        asked = {"model": "gpt-4o", "outcome": "failed", "status": 429, "no_text": "limited", "engine": ""}
        record = request_record(1, **asked)
        here.site.sources.store.decisions.requests.record(record).result(30)
        page = (await (await here.site.person("viewer-content")).get(f"/requests/{record.id}")).text
        assert NO_TEXT["limited"] in page
        assert not any(other in page for code, other in NO_TEXT.items() if code != "limited")


async def test_parameters_tools_and_raw_json_are_shown_and_withheld(tmp_path: Path) -> None:
    calls = [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city":"Rome"}'},
        }
    ]

    async def called(request: web.Request, asked: Asked) -> web.StreamResponse:
        answer: dict[str, Any] = completion("")
        answer["choices"][0] |= {"finish_reason": "tool_calls"}
        answer["choices"][0]["message"] = {"role": "assistant", "content": None, "tool_calls": calls}
        return web.json_response(answer)

    async with house(tmp_path) as here:
        here.large.script = called
        headers = {"x-understudy-session": "trip <script>alert(1)"}
        id = await here.ask(QUESTION, headers, tools=[TOOL], temperature=0.3125, user="ann@example.org")
        reader, viewer = await here.site.person("viewer-content"), await here.site.person("viewer")
        told = (await reader.get(f"/requests/{id}.json")).json
        assert told["parameters"] == {"temperature": 0.3125}
        assert [tool["name"] for tool in told["tools_offered"]] == ["get_weather"]
        assert [(call["name"], json.loads(call["arguments"])) for call in told["tools_called"]] == [
            ("get_weather", {"city": "Rome"})
        ]
        raw = {body["name"]: body for body in told["raw"]}
        assert raw["came"]["json"]["temperature"] == 0.3125 and not raw["came"]["cut"]
        assert raw["back"]["json"]["choices"][0]["finish_reason"] == "tool_calls"
        assert set(raw) == {"came", "sent", "back"} and told["finish_reasons"] == ["tool_calls"]
        page = (await reader.get(f"/requests/{id}")).text
        assert "Tools called" in page and "<script>alert" not in page and told["session"]["path"] in page
        for path in (
            f"/requests/{id}",
            f"/requests/{id}.json",
            "/requests",
            told["session"]["path"],
            "/sessions",
        ):
            got = await viewer.get(path)
            assert got.status == 200, path
            for word in ("Rome", "get_weather", "0.3125", "ann", "trip"):
                assert word not in got.text, (path, word)


async def test_an_answer_that_was_cut_says_so_and_the_correction_begins_empty(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        here.large.says = "So it goes. " * 8000
        id = await here.ask(QUESTION)
        operator = await here.site.person("operator")
        told = (await operator.get(f"/requests/{id}.json")).json
        assert told["answer_left_out"] == len(here.large.says) - len(told["texts"]["answer"]) > 0
        page = (await operator.get(f"/requests/{id}")).text
        assert "This is not the whole answer" in page and "too long to be corrected here" in page
        correction = page.partition('name="correction"')[2].partition(">")[2].partition("</textarea>")[0]
        assert correction == ""


async def test_a_repeat_names_the_examples_of_the_first_that_are_there(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.ask(QUESTION)
        await here.ask(ALIKE)
        again = await here.ask(ALIKE)
        reader = await here.site.person("viewer-content")
        told = (await reader.get(f"/requests/{again}.json")).json
        assert told["outcome"] == "hit" and told["answered_by"] == "cache"
        added = [row for row in told["texts"]["sent"] if row["added"]]
        assert added and all(row["text"] and not row["note"] for row in added)
        assert "not in the bank any more" not in (await reader.get(f"/requests/{again}")).text


async def test_of_a_request_without_texts_the_row_alone_tells(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        record = request_record(1, error_kind="server", no_text="busy", outcome="failed", status=502)
        here.site.sources.store.decisions.requests.record(record).result(30)
        told = (await (await here.site.person("operator")).get(f"/requests/{record.id}.json")).json
        assert told["error"] == {"kind": "server", "meaning": ERRORS["server"], "text": None}
        assert (told["raw"], told["user"], told["no_text"]) == ([], None, NO_TEXT["busy"])
