"""Agents' SDKs that speak `/v1/responses` by default, unchanged: repeats hit, similar ones are routed, all are booked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.flow.test_line_responses import ALIKE, QUESTION, Stage, stage

openai = pytest.importorskip("openai")
pytestmark = pytest.mark.slow

BRIEF = "Be brief."


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def sdk(here: Stage) -> AsyncIterator[Any]:
    async with openai.AsyncOpenAI(base_url=here.gate.url, api_key="sk-test", max_retries=0) as made:
        yield made


def counts(here: Stage) -> tuple[int, int]:
    return len(here.small.asked), len(here.large.asked)


def booked(here: Stage) -> list[tuple[str, str, int]]:
    assert here.gate.gateway.memory is not None
    rows = here.gate.gateway.memory.store.decisions.requests.recent(20)
    assert {row.endpoint for row in rows} == {"/v1/responses"}
    return [(row.engine, row.outcome, row.prompt_tokens) for row in reversed(rows)]


async def test_the_openai_sdk(here: Stage, sdk: Any) -> None:
    asked = {"model": "gpt-4o", "instructions": BRIEF, "input": QUESTION}
    first = await sdk.responses.create(**asked)
    await here.gate.settled()
    async with sdk.responses.stream(**asked) as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert final.output_text == first.output_text == "Use ls -a." and final.id == first.id
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
    assert counts(here) == (0, 1)
    similar = await sdk.responses.create(**asked | {"input": ALIKE})
    assert similar.output_text == "From the small one." and counts(here) == (1, 1)
    for previous in (first, similar):
        more = await sdk.responses.create(model="gpt-4o", input="And more?", previous_response_id=previous.id)
        assert more.output_text == "Use ls -a."
        assert (await sdk.responses.retrieve(previous.id)).output_text == previous.output_text
        assert (await sdk.responses.input_items.list(previous.id)).data
    await here.gate.settled()
    assert [row[:2] for row in booked(here)] == [
        ("large", "answered"),
        ("", "hit"),
        ("small", "answered"),
        ("large", "answered"),
        ("large", "answered"),
    ]


async def test_openai_agents(here: Stage, sdk: Any) -> None:
    agents = pytest.importorskip("agents")
    agents.set_tracing_disabled(True)
    model = agents.OpenAIResponsesModel(model="gpt-4o", openai_client=sdk)
    agent = agents.Agent(name="a", instructions=BRIEF, model=model)
    first = await agents.Runner.run(agent, QUESTION)
    await here.gate.settled()
    again = await agents.Runner.run(agent, QUESTION)
    streamed = agents.Runner.run_streamed(agent, QUESTION)
    kinds = [event.type async for event in streamed.stream_events()]
    assert first.final_output == again.final_output == streamed.final_output == "Use ls -a."
    assert "raw_response_event" in kinds and counts(here) == (0, 1)
    similar = await agents.Runner.run(agent, ALIKE)
    assert similar.final_output == "From the small one." and counts(here) == (1, 1)
    for before in (again, similar):
        id = before.last_response_id
        more = await agents.Runner.run(agent, "And in Windows?", previous_response_id=id)
        assert more.final_output == "Use ls -a."
    assert counts(here) == (1, 3)

    @agents.function_tool  # type: ignore[untyped-decorator, unused-ignore]
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"Fine in {city}."

    handy = agents.Agent(name="b", instructions=BRIEF, model=model, tools=[weather])
    assert (await agents.Runner.run(handy, "Weather in Oslo?")).final_output
    await here.gate.settled()
    rows = booked(here)
    assert [row[1] for row in rows][:3] == ["answered", "hit", "hit"] and rows[0][2] == 7


async def test_pydantic_ai(here: Stage, sdk: Any) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    models = pytest.importorskip("pydantic_ai.models.openai")
    providers = pytest.importorskip("pydantic_ai.providers.openai")
    model = models.OpenAIResponsesModel("gpt-4o", provider=providers.OpenAIProvider(openai_client=sdk))
    agent = pydantic_ai.Agent(model, instructions=BRIEF)
    first = await agent.run(QUESTION)
    await here.gate.settled()
    again = await agent.run(QUESTION)
    async with agent.run_stream(QUESTION) as streamed:
        said = await streamed.get_output()
    assert first.output == again.output == said == "Use ls -a." and counts(here) == (0, 1)
    similar = await agent.run(ALIKE)
    assert similar.output == "From the small one." and counts(here) == (1, 1)
    settings = models.OpenAIResponsesModelSettings(openai_previous_response_id="auto")
    for before in (again, similar):
        more = await agent.run("And more?", message_history=before.all_messages(), model_settings=settings)
        assert more.output == "Use ls -a."
    assert counts(here) == (1, 3)
    await here.gate.settled()
    assert [row[1] for row in booked(here)][:3] == ["answered", "hit", "hit"]
