"""End users of one key, over real sockets: what one of them asked and was told never reaches another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from learning.replay.material import kept_instructions
from router.digest import NO_INSTRUCTIONS, shared_scope, user_scope
from store import Store
from store.people.secret import tenant_id
from tests.flow import test_line_semantic as semantic
from tests.flow.line import Got, Line, line, upstream
from tests.flow.test_line_demonstrations import ask, give
from tests.flow.test_line_examples import ALIKE, QUESTION, Stage, stage
from tests.store.rows import new_example

KEY = {"Authorization": "Bearer sk-shop"}
ANN = KEY | {"x-understudy-user": "ann@example.org"}
BEN = KEY | {"x-understudy-user": "ben@example.org"}
FIRST_TURNS: list[dict[str, Any]] = [
    {"role": "user", "content": "Shall I look your order up?"},
    {"role": "assistant", "content": "Yes, it is B-2002."},
]


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Stage]:
    async with shop(tmp_path / "data") as made:
        yield made


def shop(data: Path, **memory: Any) -> Any:
    settings = {"data_dir": str(data), "exact": {"enabled": True}, "anonymous": False} | memory
    return stage(data, memory=settings)


def store_of(here: Stage) -> Store:
    memory = here.gate.gateway.memory
    assert memory is not None
    return memory.store


async def a_hundred_ask(gate: Line, question: str) -> None:
    """A hundred more users have an example with the vector of this question; the oldest one's scope is theirs otherwise."""
    memory = gate.gateway.memory
    assert memory is not None and memory.embedder is not None
    bank, version = memory.store.examples, memory.embedder.version
    (tenant,) = bank.tenants()
    shared = shared_scope(bank.page(tenant)[0].scope)
    vector = await asyncio.to_thread(memory.embedder.embed_blocking, question)
    for number in range(100):
        more = {
            "scope": f"{shared}/{number:024x}",
            "vector": vector,
            "embedding_version": version,
            "request_id": "",
        }
        await asyncio.wrap_future(bank.add(new_example(number, tenant, **more)))
    await gate.settled()


def by(got: Got) -> tuple[bool, str]:
    """Whether it came from memory, and who answered otherwise."""
    return got.hit, got.headers.get("x-understudy-engine", "")


async def test_an_exact_answer_is_its_own_users(here: Stage) -> None:
    await here.gate.chat(QUESTION, ANN)
    assert not (await here.gate.chat(QUESTION, BEN)).hit
    assert not (await here.gate.chat(QUESTION, KEY)).hit
    assert (await here.gate.chat(QUESTION, ANN)).hit and (await here.gate.chat(QUESTION, BEN)).hit
    assert (await here.gate.chat(QUESTION, KEY)).hit
    assert len(here.large.asked) == 3


@pytest.mark.parametrize(
    ("headers", "fields", "same"),
    [
        (KEY, {"user": "ann@example.org"}, True),
        (KEY, {"safety_identifier": "ann@example.org"}, True),
        (KEY, {"safety_identifier": "ann@example.org", "user": "ben@example.org"}, True),
        (ANN, {"safety_identifier": "ben@example.org"}, True),
        (KEY, {"user": "ben@example.org"}, False),
        (KEY, {"user": ""}, False),
        (KEY, {"prompt_cache_key": "ann@example.org"}, False),
        (KEY | {"x-understudy-user": ""}, {"user": "ann@example.org"}, True),
    ],
)
async def test_a_user_is_named_by_the_header_or_the_body_in_this_order(
    here: Stage, headers: dict[str, str], fields: dict[str, str], same: bool
) -> None:
    await here.gate.chat(QUESTION, ANN)
    assert (await here.gate.chat(QUESTION, headers, **fields)).hit is same


async def test_nobodys_words_stand_in_somebody_elses_prompt(here: Stage) -> None:
    here.large.says = "Your balance is 4,310.22 EUR."
    await here.gate.chat(QUESTION, ANN)
    here.large.says = "Yours is another."
    for headers in (BEN, KEY):
        assert by(await here.gate.chat(ALIKE, headers)) == (False, "large")
    assert by(await here.gate.chat(ALIKE + " Please.", ANN)) == (False, "small")
    (asked,) = here.small.asked
    assert [m["content"] for m in asked.json["messages"][:2]] == [QUESTION, "Your balance is 4,310.22 EUR."]
    assert not [a for a in here.large.asked if "4,310.22" in a.body.decode()]


async def test_the_same_answer_to_two_users_is_two_examples(here: Stage) -> None:
    for headers in (ANN, BEN, KEY):
        await here.gate.chat(QUESTION, headers)
    (tenant,) = store_of(here).examples.tenants()
    found = store_of(here).examples.page(tenant)
    assert len({e.scope for e in found}) == 3 and [e.merged for e in found] == [0, 0, 0]
    await here.gate.chat(QUESTION, ANN | {"Cache-Control": "no-cache", "x-understudy-engine": "large"})
    assert [e.merged for e in store_of(here).examples.page(tenant)] == [1, 0, 0], "her own twin"


async def test_a_users_examples_are_found_among_a_hundred_users_who_ask_the_same(here: Stage) -> None:
    await here.gate.chat(QUESTION, ANN)
    await a_hundred_ask(here.gate, ALIKE)
    got = await here.gate.chat(ALIKE, ANN)
    assert by(got) == (False, "small") and got.headers["x-understudy-examples"] == "1"


async def test_users_share_where_the_operator_says_so(tmp_path: Path) -> None:
    async with shop(tmp_path / "data", partition="tenant") as here:
        await here.gate.chat(QUESTION, ANN)
        assert (await here.gate.chat(QUESTION, BEN)).hit
        assert by(await here.gate.chat(ALIKE, BEN)) == (False, "small")
        assert by(await here.gate.chat(ALIKE, KEY)) == (True, "")
        shown = await ask(here.gate, "GET", "/examples", BEN)
        assert [e["question"] for e in shown.json["data"]] == [QUESTION]


async def test_examples_are_listed_and_deleted_user_by_user(here: Stage) -> None:
    await here.gate.chat(QUESTION, ANN)
    await here.gate.chat("Who painted the ceiling?", BEN)
    shown = {
        name: (await ask(here.gate, "GET", "/examples", headers)).json["data"]
        for name, headers in (("ann", ANN), ("ben", BEN), ("all", KEY))
    }
    assert [e["question"] for e in shown["ann"]] == [QUESTION]
    assert [e["question"] for e in shown["ben"]] == ["Who painted the ceiling?"]
    assert len(shown["all"]) == 2, "whoever holds the key and names nobody has the tenant's"
    (anns,) = (e["id"] for e in shown["ann"])
    assert (await ask(here.gate, "GET", f"/examples/{anns}", BEN)).status == 404
    assert (await ask(here.gate, "DELETE", f"/examples/{anns}", BEN)).status == 404
    assert (await ask(here.gate, "GET", f"/examples?after={anns}", BEN)).status == 404
    for query in ("user=ann@example.org", "key=some-key"):
        assert (await ask(here.gate, "DELETE", f"/examples?{query}", BEN)).status == 404
    assert (await ask(here.gate, "DELETE", f"/examples/{anns}", ANN)).status == 200
    bens = await ask(here.gate, "DELETE", "/examples?user=ben@example.org", BEN)
    assert (bens.status, bens.json["deleted"]) == (200, 1)


async def test_what_is_given_for_a_user_is_that_users(here: Stage) -> None:
    given = [await give(here.gate, headers=headers) for headers in (ANN, BEN)]
    assert [each.status for each in given] == [201, 201] and given[0].json["id"] != given[1].json["id"]
    assert by(await here.gate.chat(ALIKE, ANN)) == (False, "small")
    assert by(await here.gate.chat(ALIKE, KEY)) == (False, "large")


async def test_feedback_of_one_user_on_anothers_answer_is_refused(here: Stage) -> None:
    asked = await here.gate.chat(QUESTION, ANN)
    said = {"decision_id": asked.headers["x-understudy-decision-id"], "thumb": "down"}
    refused = await here.gate.post("/feedback", said, BEN)
    assert (refused.status, refused.json["error"]["code"]) == (404, "answer_not_found")
    assert (await here.gate.post("/feedback", said, ANN)).status == 201
    assert (await here.gate.post("/feedback", said | {"thumb": "up"}, KEY)).status == 201


@pytest.mark.parametrize("follow_up", [False, True])
async def test_a_correction_of_a_users_answer_stays_that_users_whoever_gives_it(
    here: Stage, follow_up: bool
) -> None:
    messages = [*(FIRST_TURNS if follow_up else []), {"role": "user", "content": QUESTION}]
    asked = await here.gate.chat(messages, ANN)
    said = {
        "decision_id": asked.headers["x-understudy-decision-id"],
        "correction": "It is on Ann's account 887-221.",
        "messages": [{"role": "user", "content": QUESTION}],
    }
    assert (await here.gate.post("/feedback", said, KEY)).status == 201
    for headers in (BEN, KEY):
        assert by(await here.gate.chat(ALIKE, headers)) == (False, "large")
    assert by(await here.gate.chat(ALIKE, ANN)) == (False, "small")


@pytest.mark.parametrize("known", [True, False], ids=["by the answer", "by nobody"])
async def test_a_correction_of_a_repeated_answer_stays_that_users_where_no_texts_are_kept(
    tmp_path: Path, known: bool
) -> None:
    async with shop(tmp_path / "data", request_texts={"enabled": False}) as here:
        await here.gate.chat(QUESTION, ANN)
        await here.gate.settled()
        repeated = await here.gate.chat(QUESTION, ANN)
        assert repeated.hit
        await here.gate.settled()
        if not known:
            await asyncio.wrap_future(store_of(here).answers.exact.forget())
        said = {
            "decision_id": repeated.headers["x-understudy-decision-id"],
            "correction": "It is on Ann's account 887-221.",
            "messages": [{"role": "user", "content": QUESTION}],
        }
        given = await here.gate.post("/feedback", said, KEY)
        if not known:
            assert (given.status, given.json["error"]["code"]) == (400, "user_needed")
            given = await here.gate.post("/feedback", said, ANN)
        assert given.status == 201
        for headers in (BEN, KEY):
            assert by(await here.gate.chat(ALIKE, headers)) == (False, "large")
        assert by(await here.gate.chat(ALIKE, ANN)) == (False, "small")


@pytest.mark.slow
async def test_a_similar_questions_answer_is_reused_for_its_own_user_only(tmp_path: Path) -> None:
    async with semantic.stage(
        tmp_path / "data", semantic.LOOSE, advanced={"reuse_audit_share": 0.01}
    ) as here:
        await here.earn(ANN)
        assert any([semantic.reused(await here.gate.chat(q, ANN)) for q in semantic.ALIKE * 4])
        for name, headers in (("Ben", BEN), ("Nobody", KEY)):
            here.behind.says = f"{name} may use dir."
            told = [(await here.gate.chat(question, headers)).text for question in semantic.ALIKE * 4]
            assert set(told) == {here.behind.says}, "of their own memory, or of the engine"


@pytest.mark.slow
async def test_a_users_answer_is_reused_among_a_hundred_users_who_ask_the_same(tmp_path: Path) -> None:
    async with semantic.stage(
        tmp_path / "data", semantic.LOOSE, advanced={"reuse_audit_share": 0.01, "reuse_deadline_ms": 10_000}
    ) as here:
        await here.earn(ANN)
        for question in semantic.ALIKE:
            await a_hundred_ask(here.gate, question)
        assert any([semantic.reused(await here.gate.chat(q, ANN)) for q in semantic.ALIKE * 4])


async def test_embeddings_are_a_users_own_too(tmp_path: Path) -> None:
    async with upstream() as behind:
        memory = {"data_dir": str(tmp_path), "examples": {"enabled": False}, "anonymous": False}
        async with line({"upstream": {"base_url": behind.url}, "memory": memory}) as gate:
            body = {"model": "e", "input": "My balance?"}
            for headers, hit in (
                (ANN, False),
                (BEN, False),
                (KEY, False),
                (ANN, True),
                ({}, False),
                ({}, False),
            ):
                assert (await gate.post("/embeddings", body, headers)).hit is hit


async def test_a_users_name_is_kept_nowhere(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with shop(data) as here:
        await here.gate.chat(QUESTION, ANN)
        await here.gate.chat(QUESTION, KEY, user="ann@example.org")
        assert "ann@example.org" not in here.gate.gateway.metrics.exposition().decode()
        assert "x-understudy-user" not in {name.lower() for a in here.large.asked for name in a.headers}
    kept = b"".join(p.read_bytes() for p in data.rglob("understudy.db*"))
    assert kept and b"ann@example.org" not in kept


async def test_a_users_example_can_be_asked_again_under_its_instructions(here: Stage) -> None:
    system = {"role": "system", "content": "Be brief."}
    await here.gate.chat([system, {"role": "user", "content": QUESTION}], ANN)
    await here.gate.chat(QUESTION, BEN)
    store = store_of(here)
    briefly, plainly = store.examples.page(tenant_id(store.secret, "sk-shop"))
    assert user_scope(briefly.scope) != user_scope(plainly.scope) != ""
    assert kept_instructions(store, briefly) == '[["Be brief."],null]'
    assert kept_instructions(store, plainly) == NO_INSTRUCTIONS


async def test_a_private_tenants_bank_is_read_by_all_its_users(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with shop(data) as before:
        tenant = tenant_id(store_of(before).secret, "sk-shop")
        await before.gate.chat(QUESTION, ANN)
    async with stage(data, private={"tenants": [f"id:{tenant}"]}) as here:
        await here.gate.chat("Who painted the ceiling?", BEN)
        store = store_of(here)
        aside = await asyncio.to_thread(store.examples.private.questions, tenant)
        assert len({each.contributor for each in aside}) == 2 and len({each.scope for each in aside}) == 1
        memory = here.gate.gateway.memory
        assert memory is not None and memory.embedder is not None
        vector = await asyncio.to_thread(memory.embedder.embed_blocking, QUESTION)
        written = new_example(1, tenant, vector=vector, embedding_version=memory.embedder.version)
        fields = {n: getattr(written, n) for n in written.__slots__}
        fields |= {
            "scope": aside[0].scope,
            "synthetic": True,
            "question": QUESTION,
            "embedded_text": QUESTION,
        }
        admitted = await asyncio.wrap_future(store.examples.admit(type(written)(**fields)))
        assert admitted.outcome == "added"
        await here.gate.settled()
        for headers in (ANN, BEN, KEY):
            assert by(await here.gate.chat(ALIKE, headers)) == (False, "small")


async def test_a_follow_up_becomes_no_example_and_is_given_none(here: Stage) -> None:
    follow_up = [*FIRST_TURNS, {"role": "user", "content": QUESTION}]
    await here.gate.chat(follow_up, KEY)
    assert (await ask(here.gate, "GET", "/examples", KEY)).json["data"] == []
    await here.gate.chat(QUESTION, KEY)
    assert by(await here.gate.chat([*FIRST_TURNS, {"role": "user", "content": ALIKE}], KEY)) == (
        False,
        "large",
    )
    assert by(await here.gate.chat(ALIKE, KEY)) == (False, "small")


async def test_follow_ups_that_stand_for_themselves_become_examples_and_are_given_some(
    tmp_path: Path,
) -> None:
    asked = "Explain how photosynthesis works in cyanobacteria"
    first: list[dict[str, Any]] = [
        {"role": "user", "content": "Explain how photosynthesis works in plants"},
        {"role": "assistant", "content": "By light."},
    ]
    async with shop(tmp_path / "data", examples={"follow_ups": "standalone"}) as here:
        for text in ("Tell me more about it", "And why is that?"):
            await here.gate.chat([*first, {"role": "user", "content": text}], KEY)
        assert (await ask(here.gate, "GET", "/examples", KEY)).json["data"] == []
        await here.gate.chat([*first, {"role": "user", "content": asked}], KEY)
        (kept,) = (await ask(here.gate, "GET", "/examples", KEY)).json["data"]
        assert kept["question"] == asked, "without the turns before it"
        got = await here.gate.chat([*first, {"role": "user", "content": f"{asked}?"}], KEY)
        assert by(got) == (False, "small") and got.headers["x-understudy-examples"] == "1"
        # It is found by who asks it first, too.
        assert by(await here.gate.chat(f"{asked}!", KEY)) == (False, "small")


async def test_follow_ups_become_examples_where_the_operator_says_so(tmp_path: Path) -> None:
    examples = {"follow_ups": True}
    async with shop(tmp_path / "data", examples=examples) as here:
        await here.gate.chat([*FIRST_TURNS, {"role": "user", "content": QUESTION}], KEY)
        got = await here.gate.chat([*FIRST_TURNS, {"role": "user", "content": QUESTION + " "}], KEY)
        assert by(got) == (False, "small") and got.headers["x-understudy-examples"] == "1"
