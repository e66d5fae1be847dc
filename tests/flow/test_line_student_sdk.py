"""The official Python SDK cannot tell a student from its teacher: the same labels in the same forms, before and after."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.flow.tasks import ENUM, QUICK, SCHEMA, SYSTEM, WORDS, Flow, flow, right

openai = pytest.importorskip("openai")

IN_JSON = {"json_schema": SCHEMA, "retrain_every": 60, "budget": {"share": 0.3}}
TASKS = {"tasks": {"intent": QUICK, "intent_json": IN_JSON}}
_ASKED_AT_ONCE, _ROUNDS = 10, 120


@dataclass
class Answer:
    """What a client reads, and by whom it was said."""

    text: str
    engine: str
    form: Any
    """All that is told beside the text, without what differs from answer to answer."""


Ask = Callable[[Any, str], Awaitable[Answer]]


def messages(text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]


def form(answer: Any) -> Any:
    (choice,) = answer.choices
    said = choice.message
    used = answer.usage
    assert used.total_tokens == used.prompt_tokens + used.completion_tokens
    return (
        *(answer.object, answer.model_fields_set - {"usage"}, choice.index, choice.finish_reason),
        *(said.role, said.refusal, said.tool_calls, choice.logprobs is None),
    )


async def whole(client: Any, text: str, **fields: Any) -> tuple[Any, str]:
    raw = await client.chat.completions.with_raw_response.create(
        model="gpt-4o", messages=messages(text), **fields
    )
    return raw.parse(), raw.headers["x-understudy-engine"]


async def plain(client: Any, text: str) -> Answer:
    answer, engine = await whole(client, text)
    return Answer(answer.choices[0].message.content, engine, form(answer))


async def streamed(client: Any, text: str) -> Answer:
    raw = await client.chat.completions.with_raw_response.create(
        model="gpt-4o", messages=messages(text), stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in raw.parse()]
    *spoken, last = chunks
    assert last.choices == [] and last.usage.total_tokens
    deltas = [chunk.choices[0] for chunk in spoken]
    text = "".join(one.delta.content or "" for one in deltas)
    told = {chunk.object for chunk in chunks}, deltas[0].delta.role, [o.finish_reason for o in deltas][-1]
    assert all(one.finish_reason is None for one in deltas[:-1])
    return Answer(text, raw.headers["x-understudy-engine"], told)


async def json_schema(client: Any, text: str) -> Answer:
    answer, engine = await whole(client, text, response_format=ENUM)
    said = answer.choices[0].message.content
    (label,) = json.loads(said).values()
    assert json.loads(said) == {"intent": label}
    return Answer(label, engine, (form(answer), said.replace(label, "")))


async def with_logprobs(client: Any, text: str) -> Answer:
    answer, engine = await whole(client, text, logprobs=True, top_logprobs=2)
    said = answer.choices[0].message.content
    tokens = answer.choices[0].logprobs.content
    assert "".join(token.token for token in tokens) == said
    assert all(bytes(token.bytes).decode() == token.token and token.logprob <= 0 for token in tokens)
    first = tokens[0]
    likeliest = [one.token for one in first.top_logprobs]
    assert len(likeliest) == 2 and likeliest[0] == first.token
    assert {one.lower() for one in likeliest} <= set(WORDS)
    assert sum(math.exp(one.logprob) for one in first.top_logprobs) <= 1.001
    return Answer(said, engine, (form(answer), len(tokens)))


FORMS: tuple[Ask, ...] = (plain, streamed, json_schema, with_logprobs)


async def until_both(made: Flow, client: Any, ask: Ask) -> dict[str, list[tuple[str, Answer]]]:
    """What was asked and answered, by engine, once the student answered some and the teacher one."""
    found: dict[str, list[tuple[str, Answer]]] = {"large": [], "student": []}
    for _ in range(_ROUNDS):
        texts = [made.text() for _ in range(_ASKED_AT_ONCE)]
        for text, answer in zip(
            texts, await asyncio.gather(*(ask(client, text) for text in texts)), strict=True
        ):
            found[answer.engine].append((text, answer))
        if len(found["student"]) >= 10 and found["large"]:
            return found
        await made.learn()
    raise AssertionError(f"{ask.__name__}: the student answered {len(found['student'])} of {made.asked}")


@pytest.mark.slow
async def test_labels_and_formats_are_the_same_before_and_after_the_student_takes_over(
    tmp_path: Path,
) -> None:
    async with flow(tmp_path, **TASKS) as made:
        async with openai.AsyncOpenAI(base_url=made.gate.url, api_key="sk-test", max_retries=0) as client:
            for ask in FORMS:
                found = await until_both(made, client, ask)
                # As the teacher writes them, who may have had no occasion yet to say each in this form.
                labels = set(WORDS) if ask is json_schema else {f"{label.capitalize()}." for label in WORDS}
                assert {answer.text for _, answer in found["large"]} <= labels, ask.__name__
                for _, answer in found["student"]:
                    assert answer.text in labels, ask.__name__
                    assert answer.form == found["large"][0][1].form, ask.__name__
                agreed = [
                    right(text) == answer.text.removesuffix(".").lower() for text, answer in found["student"]
                ]
                assert sum(agreed) >= 0.8 * len(agreed), ask.__name__
            await made.gate.settled()
            async with made.gate.session.get(made.gate.url.removesuffix("/v1") + "/metrics") as told:
                series = (await told.text()).splitlines()
            for task, answered in (("intent", 30), ("intent_json", 10)):
                name = f'understudy_task_answers_total{{by="student",model="gpt-4o",task="{task}"}} '
                assert [float(one[len(name) :]) >= answered for one in series if one.startswith(name)] == [
                    True
                ]
            # In mid-run every version's file goes, and everybody looks for them anew.
            asking = [asyncio.ensure_future(ask(client, made.text())) for _ in range(10) for ask in FORMS]
            for file in (tmp_path / "artifacts").iterdir():
                file.unlink()
            for version in made.store.artifacts.versions("student"):
                if version.state == "active":
                    await asyncio.to_thread(made.store.artifacts.activate, version.id)
            for answer in await asyncio.gather(*asking):
                assert answer.engine in ("large", "student")
    # Nor does it fail any to start without them.
    async with flow(tmp_path, **TASKS) as made:
        async with openai.AsyncOpenAI(base_url=made.gate.url, api_key="sk-test", max_retries=0) as client:
            for ask in FORMS * 2:
                assert (await ask(client, made.text())).engine == "large"
