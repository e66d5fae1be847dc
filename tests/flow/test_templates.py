"""Prompts that share a template, over real sockets: only what is asked makes a request familiar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.flow.line import Got
from tests.flow.test_line_examples import Stage, stage
from tests.patience import until
from tests.prompts import ODDITIES, PROMPTS, TOPICS, Prompt

USED = (
    "retrieval, 1000 characters, passage, question last",
    "agent, 3000 characters, question last",
    "question in the middle of 1000 characters",
)


async def ask(here: Stage, prompt: Prompt, question: str, passage: str, **more: Any) -> Got:
    return await here.gate.chat(prompt(question, passage), **more)


async def embedded_anew(here: Stage) -> None:
    """Wait until no example is embedded with a part of its template any more."""
    memory = here.gate.gateway.memory
    assert memory is not None
    bank, templates = memory.store.examples, memory.templates
    (tenant,) = bank.tenants()

    def follows() -> bool:
        kept = bank.newest(tenant, 1000)
        return all(templates.digest(tenant, e.scope, e.question).text == e.embedded_text for e in kept)

    await until(follows, "examples are embedded anew")
    await here.gate.settled()


@pytest.mark.slow
async def test_unrelated_questions_in_a_template_go_to_the_large_engine(tmp_path: Path) -> None:
    async with stage(tmp_path / "data", m=1) as here:
        for topic in (*ODDITIES, *TOPICS):
            for name in USED:
                got = await ask(here, PROMPTS[name], topic.questions[0], topic.passage)
                assert got.headers["x-understudy-engine"] == "large", (name, topic.questions[0])
        await embedded_anew(here)
        for name in USED:
            got = await ask(here, PROMPTS[name], "Why do cats purr?", "Cats purr when they are at ease.")
            assert got.headers["x-understudy-engine"] == "large", name


@pytest.mark.slow
async def test_paraphrases_in_a_template_go_to_the_small_one_with_the_whole_example(tmp_path: Path) -> None:
    prompt = PROMPTS["agent, 3000 characters, question last"]
    async with stage(tmp_path / "data", m=3) as here:
        for topic in TOPICS[:2]:
            for question in topic.questions[:4]:
                await ask(here, prompt, question, topic.passage)
            await embedded_anew(here)
        before = len(here.small.asked)
        got = await ask(here, prompt, TOPICS[0].questions[5], TOPICS[0].passage)
        assert got.headers["x-understudy-engine"] == "small"
        shown = [m["content"] for m in here.small.asked[before].json["messages"] if m["role"] == "user"]
        # Examples are shown as they were asked, and all of them are about the same.
        about = {prompt(question, TOPICS[0].passage) for question in TOPICS[0].questions}
        assert len(shown) >= 3 and set(shown) <= about


@pytest.mark.slow
async def test_a_restart_loses_no_template(tmp_path: Path) -> None:
    prompt = PROMPTS["agent, 3000 characters, question last"]
    async with stage(tmp_path / "data", m=3) as first:
        for question in TOPICS[0].questions[:5]:
            await ask(first, prompt, question, "")
        await embedded_anew(first)
    async with stage(tmp_path / "data", m=3) as second:
        memory = second.gate.gateway.memory
        assert memory is not None
        await until(memory.templates.known, "the new process has learnt from the bank")
        await embedded_anew(second)
        got = await ask(second, prompt, TOPICS[0].questions[5], "")
        assert got.headers["x-understudy-engine"] == "small"
        unrelated = await ask(second, prompt, ODDITIES[0].questions[0], "")
        assert unrelated.headers["x-understudy-engine"] == "large"


async def test_a_date_in_the_system_prompt_makes_no_other_scope(tmp_path: Path) -> None:
    def under(day: str, question: str) -> list[dict[str, Any]]:
        said = f"You help people with computers. Today is {day}, session 9f86d081884c7d6{day[-1]}."
        return [{"role": "system", "content": said}, {"role": "user", "content": question}]

    async with stage(tmp_path / "data") as here:
        await here.gate.chat(under("2026-11-22", "How do I sort a list in Python?"))
        got = await here.gate.chat(under("2026-11-23", "How can I sort a Python list?"))
        assert got.headers["x-understudy-engine"] == "small"


async def test_a_client_may_name_the_scope_of_its_requests(tmp_path: Path) -> None:
    def to(name: str, question: str) -> list[dict[str, Any]]:
        return [{"role": "system", "content": f"You talk to {name}."}, {"role": "user", "content": question}]

    named = {"x-understudy-scope": "support"}
    async with stage(tmp_path / "data") as here:
        await here.gate.chat(to("Ann", "How do I sort a list in Python?"), named)
        unnamed = await here.gate.chat(to("Bob", "How can I sort a Python list?"))
        assert unnamed.headers["x-understudy-engine"] == "large"
        got = await here.gate.chat(to("Bob", "How can I sort a Python list?"), named)
        assert got.headers["x-understudy-engine"] == "small"
        assert "x-understudy-scope" not in here.small.asked[0].headers
        refused = await here.gate.chat("Hello?", {"x-understudy-scope": "x" * 101})
        assert refused.status == 400 and refused.json["error"]["param"] == "x-understudy-scope"


@pytest.mark.parametrize("became_an_example", [True, False])
async def test_a_correction_lands_in_the_named_scope_of_the_request_it_corrects(
    tmp_path: Path, became_an_example: bool
) -> None:
    support, question = {"x-understudy-scope": "support"}, "How do I sort a list in Python?"
    async with stage(tmp_path / "data") as here:
        asked_of = {} if became_an_example else {"x-understudy-engine": "small"}
        wrong = await here.gate.chat(question, support | asked_of)
        said = {
            "decision_id": wrong.headers["x-understudy-decision-id"],
            "correction": "Use sorted(x).",
            "messages": [{"role": "user", "content": question}],
        }
        given = await here.gate.post("/feedback", said, {} if became_an_example else support)
        assert given.status == 201, given.body
        here.small.asked.clear()
        for headers, engine in (
            (support, "small"),
            ({}, "large"),
            ({"x-understudy-scope": "sales"}, "large"),
        ):
            got = await here.gate.chat(
                "How can I sort a Python list?", headers | {"Cache-Control": "no-store"}
            )
            assert got.headers["x-understudy-engine"] == engine
        assert "Use sorted(x)." in [m["content"] for m in here.small.asked[0].json["messages"]]


async def test_the_same_correction_in_two_scopes_is_two_examples(tmp_path: Path) -> None:
    question = "How do I sort a list in Python?"
    async with stage(tmp_path / "data") as here:
        for number, name in enumerate(("support", "sales")):
            headers = {"x-understudy-scope": name, "x-understudy-engine": "small"}
            wrong = await here.gate.chat(question, headers)
            said = {
                "decision_id": wrong.headers["x-understudy-decision-id"],
                "correction": "Use sorted(x).",
                "messages": [{"role": "user", "content": question}],
            }
            assert (await here.gate.post("/feedback", said, headers)).status == 201
            async with here.gate.session.get(here.gate.url + "/examples") as listed:
                assert len((await listed.json())["data"]) == number + 1


async def test_feedback_with_a_scope_that_is_no_name_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path / "data") as here:
        wrong = await here.gate.chat("How do I sort a list in Python?")
        said = {"decision_id": wrong.headers["x-understudy-decision-id"], "thumb": "down"}
        refused = await here.gate.post("/feedback", said, {"x-understudy-scope": "x" * 101})
        assert refused.status == 400 and refused.json["error"]["param"] == "x-understudy-scope"


async def test_a_demonstration_may_be_given_for_a_named_scope(tmp_path: Path) -> None:
    body = {
        "messages": [{"role": "user", "content": "How do I sort a list in Python?"}],
        "answer": "sorted(x)",
    }
    async with stage(tmp_path / "data") as here:
        for scope in ("support", "sales"):
            given = await here.gate.post("/examples", body, {"x-understudy-scope": scope})
            assert given.status == 201
        for headers, engine in (({"x-understudy-scope": "sales"}, "small"), ({}, "large")):
            got = await here.gate.chat("How can I sort a Python list?", headers)
            assert got.headers["x-understudy-engine"] == engine
