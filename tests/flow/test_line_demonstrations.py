"""Demonstrations over real sockets: given once, used at once, seen and deleted by their own tenant only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.endpoints.examples import PATH
from tests.flow.line import Got, Line, line, upstream
from tests.flow.test_line_examples import ALIKE, QUESTION, UNLIKE, Stage, stage

ALICE = {"Authorization": "Bearer sk-alice"}
BOB = {"Authorization": "Bearer sk-bob"}
ANSWER = "Use find . -maxdepth 1."


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage(tmp_path / "data") as made:
        yield made


def messages(question: str = QUESTION, system: str = "") -> list[dict[str, Any]]:
    return [
        *([{"role": "system", "content": system}] if system else []),
        {"role": "user", "content": question},
    ]


async def give(gate: Line, question: str = QUESTION, answer: str = ANSWER, **more: Any) -> Got:
    headers = more.pop("headers", ALICE)
    body = {"messages": messages(question, more.pop("system", "")), "answer": answer} | more
    return await gate.post(PATH, body, headers)


async def ask(gate: Line, method: str, path: str, headers: dict[str, str] = ALICE) -> Got:
    async with gate.session.request(method, gate.url + path, headers=headers) as response:
        got = Got(response.status, response.headers.copy(), await response.read())
    await gate.settled()
    return got


async def test_a_demonstration_is_used_for_the_very_next_request(here: Stage) -> None:
    given = await give(here.gate)
    assert given.status == 201 and given.json["kind"] == "demonstration" and given.json["answer"] == ANSWER
    got = await here.gate.chat(ALIKE, ALICE)
    assert got.headers["x-understudy-engine"] == "small" and got.headers["x-understudy-examples"] == "1"
    assert [m["content"] for m in here.small.asked[0].json["messages"]] == [QUESTION, ANSWER, ALIKE]
    assert not here.large.asked


async def test_a_demonstration_is_committed_before_its_201(tmp_path: Path) -> None:
    async with stage(tmp_path / "data") as first:
        name = (await give(first.gate)).json["id"]
        # What a second process sees is what is committed.
        async with stage(tmp_path / "data") as second:
            assert (await ask(second.gate, "GET", f"/examples/{name}")).json["answer"] == ANSWER


async def test_a_demonstration_is_not_used_under_other_instructions(here: Stage) -> None:
    await give(here.gate, system="Answer in French.")
    german = await here.gate.chat(messages(ALIKE, "Answer in German."), ALICE)
    french = await here.gate.chat(messages(ALIKE, "Answer in French."), ALICE)
    assert (
        german.headers["x-understudy-engine"] == "large" and french.headers["x-understudy-engine"] == "small"
    )


async def test_the_same_demonstration_twice_is_kept_once(here: Stage) -> None:
    first, second = await give(here.gate), await give(here.gate)
    assert first.json == second.json and second.status == 201
    assert len((await ask(here.gate, "GET", "/examples")).json["data"]) == 1


async def test_an_idempotency_key_is_never_two_demonstrations(here: Stage) -> None:
    headers = ALICE | {"Idempotency-Key": "k-1"}
    first = await give(here.gate, headers=headers)
    again = await give(here.gate, headers=headers)
    other = await give(here.gate, question=UNLIKE, headers=headers)
    assert first.json["id"] == again.json["id"]
    assert other.status == 409 and other.json["error"]["code"] == "idempotency_conflict"
    bobs = await give(here.gate, question=UNLIKE, headers=BOB | {"Idempotency-Key": "k-1"})
    assert bobs.status == 201, "keys of one tenant mean nothing to another"


async def test_another_tenants_example_does_not_exist(here: Stage) -> None:
    name = (await give(here.gate, pinned=True)).json["id"]
    missing = await ask(here.gate, "GET", "/examples/demo-00000000000000000000000000000000", BOB)
    for method in ("GET", "DELETE"):
        got = await ask(here.gate, method, f"/examples/{name}", BOB)
        assert got.status == missing.status == 404
        assert got.body.replace(name.encode(), b"") == missing.body.replace(b"demo-" + b"0" * 32, b"")
    assert (await ask(here.gate, "GET", f"/examples?after={name}", BOB)).status == 404
    assert (await ask(here.gate, "GET", "/examples", BOB)).json["data"] == []
    assert (await ask(here.gate, "GET", f"/examples/{name}")).json["pinned"] is True


async def test_the_examples_name_is_the_decision_id_that_the_client_saw(here: Stage) -> None:
    got = await here.gate.chat(QUESTION, ALICE)
    found = await ask(here.gate, "GET", f"/examples/{got.headers['x-understudy-decision-id']}")
    assert (
        found.json["answer"] == "Use ls -a."
        and found.json["kind"] == "observed"
        and found.json["source"] == "large"
    )


async def test_a_deleted_example_is_never_used_again(here: Stage) -> None:
    name = (await give(here.gate)).json["id"]
    assert (await ask(here.gate, "DELETE", f"/examples/{name}")).json == {
        "id": name,
        "object": "example.deleted",
        "deleted": True,
    }
    assert (await ask(here.gate, "DELETE", f"/examples/{name}")).status == 404
    assert (await here.gate.chat(ALIKE, ALICE)).headers["x-understudy-engine"] == "large"


async def test_deleting_one_users_examples_leaves_the_others(here: Stage) -> None:
    await give(here.gate, user="u-1")
    kept = (await give(here.gate, question=UNLIKE, safety_identifier="u-2", user="u-1")).json["id"]
    bobs = (await give(here.gate, user="u-1", headers=BOB)).json["id"]
    gone = await ask(here.gate, "DELETE", "/examples?user=u-1")
    assert gone.json["object"] == "examples.deleted" and gone.json["deleted"] == 1
    assert [e["id"] for e in (await ask(here.gate, "GET", "/examples")).json["data"]] == [kept]
    assert (await ask(here.gate, "GET", f"/examples/{bobs}", BOB)).status == 200


async def test_deleting_everything_by_mistake_is_refused(here: Stage) -> None:
    await give(here.gate)
    for query in ("", "?", "?user=", "?user=a&key=b", "?usr=u-1"):
        assert (await ask(here.gate, "DELETE", f"/examples{query}")).status == 400
    assert len((await ask(here.gate, "GET", "/examples")).json["data"]) == 1


async def test_a_list_is_given_in_pages_without_gap_or_repeat(here: Stage) -> None:
    topics = ("opera", "plumbing", "volcanoes", "chess", "tax law")
    names = [(await give(here.gate, f"Tell me something about {topic}.")).json["id"] for topic in topics]
    await here.gate.chat(QUESTION, ALICE)
    seen: list[str] = []
    query = "?limit=2&kind=demonstration"
    for more in (True, True, False):
        page = (await ask(here.gate, "GET", f"/examples{query}")).json
        assert page["object"] == "list" and page["has_more"] is more
        seen += [e["id"] for e in page["data"]]
        query = f"?limit=2&kind=demonstration&after={page['last_id']}"
    assert seen == names
    observed = (await ask(here.gate, "GET", "/examples?kind=observed")).json["data"]
    assert [e["kind"] for e in observed] == ["observed"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"answer": None}, "invalid_type"),
        ({"answer": ""}, "not_admitted_empty"),
        ({"messages": "no"}, "invalid_type"),
        ({"messages": [{"role": "system", "content": "only"}]}, "not_admitted_empty"),
        ({"answer": "x" * 9000}, "not_admitted_too_long"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "not_admitted_tool_calls"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,x"}}]}
                ]
            },
            "not_admitted_not_plain_text",
        ),
        ({"pinned": "yes"}, "invalid_type"),
    ],
)
async def test_what_is_refused_is_not_kept_and_says_why(
    here: Stage, change: dict[str, Any], code: str
) -> None:
    body = {"messages": messages(), "answer": ANSWER} | change
    got = await here.gate.post("/examples", body, ALICE)
    assert got.status == 400 and got.json["error"]["code"] == code, got.json
    assert got.json["error"]["type"] == "invalid_request_error"
    assert (await ask(here.gate, "GET", "/examples")).json["data"] == []


async def test_bad_questions_about_examples_get_openais_errors(here: Stage) -> None:
    for method, path, status in (
        ("PUT", "/examples", 405),
        ("GET", "/examples?limit=0", 400),
        ("GET", "/examples?limit=many", 400),
        ("GET", "/examples?kind=odd", 400),
        ("GET", "/examples/%FF%00", 404),
        ("GET", "/examples?after=%FF", 404),
        ("GET", "/examplesque", 404),
    ):
        got = await ask(here.gate, method, path)
        assert got.status == status and set(got.json["error"]) == {"message", "type", "param", "code"}, path


async def test_ids_tell_nothing_of_how_much_others_have(here: Stage) -> None:
    first = (await give(here.gate)).json
    for i in range(3):
        await give(here.gate, question=f"{UNLIKE} Act {i}?", headers=BOB)
    second = (await give(here.gate, question=UNLIKE)).json
    numbers = [v for e in (first, second) for k, v in e.items() if isinstance(v, int) and "created" not in k]
    assert set(numbers) <= {
        0,
        1,
        *(e[k] for e in (first, second) for k in ("prompt_tokens", "completion_tokens")),
    }
    assert first["id"].startswith("demo-") and len(first["id"]) == len(second["id"]) == 37


async def test_switched_off_it_says_so_and_never_asks_the_upstream(tmp_path: Path) -> None:
    async with upstream() as behind:
        memory = {"data_dir": str(tmp_path), "examples": {"enabled": False}}
        async with line({"upstream": {"base_url": behind.url}, "memory": memory}) as gate:
            got = await give(gate)
            assert got.status == 404 and got.json["error"]["code"] == "examples_disabled"
        assert not behind.asked


async def test_without_memory_it_is_the_upstreams_business(tmp_path: Path) -> None:
    async with upstream() as behind:
        async with line({"upstream": {"base_url": behind.url}}) as gate:
            await give(gate)
        assert [a.path for a in behind.asked] == ["/v1/examples"]


async def test_many_at_once_are_all_kept_once(here: Stage) -> None:
    questions = [f"What is the capital of the invented country number {i}?" for i in range(10)] * 3
    got = await asyncio.gather(*(give(here.gate, q, f"It is {q[-3:]}.") for q in questions))
    assert {g.status for g in got} == {201}
    listed = (await ask(here.gate, "GET", "/examples?limit=100")).json["data"]
    assert len(listed) == 10


async def test_nothing_of_a_demonstration_is_in_the_metrics(here: Stage) -> None:
    await give(here.gate, "A canary question qwertz?", "A canary answer yxcvbn.", user="canary-user")
    exposed = here.gate.gateway.metrics.exposition()
    assert not [word for word in (b"qwertz", b"yxcvbn", b"canary") if word in exposed]
    assert json.loads((await ask(here.gate, "GET", "/examples")).body)["data"]
