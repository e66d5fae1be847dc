"""Clients of each of three APIs on engines of each of them, over real sockets, by the clients' own SDKs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

from engines.asking import Bill, NotAnswered, ask, chat_of  # noqa: E402
from tests.flow.line import Line, line  # noqa: E402
from tests.flow.line import upstream as running  # noqa: E402
from tests.flow.three_apis import APIS, CALLS, PICTURE, SCHEMA, Answer, Client, Upstream  # noqa: E402

TEXT = 'Forty-two, as "everybody" knows.\nBy now: \u00fc\u4e2d.'
NINE = [pytest.param(client, engine, id=f"{client}-on-{engine}") for client in APIS for engine in APIS]
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@pytest.fixture
async def behind() -> Upstream:
    return Upstream()


@pytest.fixture
async def gate(behind: Upstream, tmp_path: Path) -> AsyncIterator[Line]:
    async with running() as server:
        server.script = behind
        engines: dict[str, Any] = {
            api: {
                "kind": "anthropic" if api == "messages" else "openai",
                "base_url": server.url,
                "api_key": "sk-own",
                "apis": [api],
                "advanced": {"attempts": 1},
            }
            for api in APIS
        }
        models = {api: {"engines": [api]} for api in APIS}
        memory = {"data_dir": str(tmp_path / "data"), "examples": {"enabled": False}}
        async with line({"engines": engines, "models": models, "memory": memory}) as made:
            yield made


@pytest.fixture
async def client(request: pytest.FixtureRequest, gate: Line) -> AsyncIterator[Client]:
    made = Client(request.param, gate)
    yield made
    await made.aclose()


nine = pytest.mark.parametrize(("client", "engine"), NINE, indirect=["client"])


@STREAMED
@nine
async def test_text_and_usage(client: Client, engine: str, behind: Upstream, stream: bool) -> None:
    behind.says = Answer(TEXT, cached=7, prompt=31, output=12)
    heard = await client.ask(engine, stream=stream)
    assert (heard.text, heard.thought, heard.calls, heard.reason) == (TEXT, "", [], "stop")
    assert (heard.prompt, heard.cached, heard.output) == (31, 7, 12)
    asked, headers = behind.asked[-1], behind.headers[-1]
    assert bool(asked.get("stream")) is stream
    assert headers["x-api-key" if engine == "messages" else "Authorization"].endswith("sk-own")
    if client.api != engine:
        assert not [
            name for name in headers if name.lower().startswith("anthropic-") and engine != "messages"
        ]


@STREAMED
@nine
async def test_parallel_calls_of_tools(client: Client, engine: str, behind: Upstream, stream: bool) -> None:
    behind.says = Answer("Let me look.", calls=CALLS, reason="tool_calls")
    heard = await client.ask(engine, stream=stream, tools=True)
    assert (heard.text, heard.calls, heard.reason) == ("Let me look.", list(CALLS), "tool_calls")
    tool = behind.asked[-1]["tools"][0]
    described = tool.get("function", tool)
    assert described["name"] == "weather"
    assert described.get("parameters", described.get("input_schema")) == SCHEMA


@STREAMED
@nine
async def test_reasoning(client: Client, engine: str, behind: Upstream, stream: bool) -> None:
    behind.says = Answer("Yes.", thought="The city is large.", reasoning_tokens=4)
    heard = await client.ask(engine, stream=stream)
    assert (heard.text, heard.thought) == ("Yes.", "The city is large.")
    if "messages" not in (client.api, engine):
        assert heard.reasoning_tokens == 4


@STREAMED
@nine
async def test_an_answer_that_is_cut_off_at_its_limit(
    client: Client, engine: str, behind: Upstream, stream: bool
) -> None:
    behind.says = Answer("Forty-", reason="length")
    try:
        heard = await client.ask(engine, stream=stream)
    except openai.LengthFinishReasonError as short:
        # What the SDK's helper makes of it, on any engine.
        assert client.api == "chat" and short.completion.choices[0].message.content == "Forty-"
        return
    assert (heard.text, heard.reason) == ("Forty-", "length")


@nine
async def test_a_picture_and_a_schema(client: Client, engine: str, behind: Upstream) -> None:
    behind.says = Answer('{"city": "Oslo"}')
    heard = await client.ask(engine, stream=False, picture=True, schema=True)
    assert heard.text == '{"city": "Oslo"}'
    asked = str(behind.asked[-1])
    assert PICTURE in asked and str(SCHEMA["properties"]) in asked


@STREAMED
@nine
async def test_an_error(client: Client, engine: str, behind: Upstream, stream: bool) -> None:
    behind.fails = (400, "That is no good.")
    with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)) as refused:
        await client.ask(engine, stream=stream)
    assert "That is no good." in str(refused.value)
    assert refused.value.response.headers["Retry-After"] == "7"
    told = refused.value.response.json()
    assert told["error"]["message"] == "That is no good."
    assert ("type" in told) is (client.api == "messages")


@nine
async def test_a_stream_that_is_cut(client: Client, engine: str, behind: Upstream) -> None:
    behind.says, behind.cut = Answer(TEXT), 6
    with pytest.raises((openai.APIError, anthropic.APIError)):
        await client.ask(engine, stream=True)


@nine
async def test_a_stream_that_fails_halfway(client: Client, engine: str, behind: Upstream) -> None:
    behind.says, behind.fails_halfway = Answer(TEXT), 6
    with pytest.raises((openai.APIError, anthropic.APIError), match="Overloaded"):
        await client.ask(engine, stream=True)


# ---- what cannot be said, and who is asked instead


@pytest.fixture
async def mixed(behind: Upstream, tmp_path: Path) -> AsyncIterator[Line]:
    async with running() as server:
        server.script = behind
        small = {"base_url": server.url, "api_key": "k", "apis": ["chat"], "model": "small"}
        engines = {
            "small": small,
            "lax": small | {"drops": ["web_search_20250305"], "model": "lax"},
            "claude": {"kind": "anthropic", "base_url": server.url, "api_key": "k", "model": "claude"},
        }
        models = {
            "alone": {"engines": ["small"]},
            "lax": {"engines": ["lax"]},
            "both": {"engines": ["claude", "small"]},
        }
        memory = {"data_dir": str(tmp_path / "data"), "examples": {"enabled": False}}
        async with line({"engines": engines, "models": models, "memory": memory}) as made:
            yield made


SEARCH = {"type": "web_search_20250305", "name": "web_search"}


def _asked(model: str, **more: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]} | more


async def test_what_no_engine_can_be_asked_is_refused_by_its_name(mixed: Line, behind: Upstream) -> None:
    got = await mixed.post("/messages", _asked("alone", tools=[SEARCH]))
    assert (got.status, got.json["type"]) == (400, "error")
    assert got.json["error"]["code"] == "not_translatable"
    assert "'web_search_20250305' in 'tools'" in got.json["error"]["message"]
    assert not behind.asked


async def test_what_the_operator_lets_drop_is_left_out(mixed: Line, behind: Upstream) -> None:
    behind.says = Answer("Yes.")
    got = await mixed.post("/messages", _asked("lax", tools=[SEARCH]))
    assert got.json["content"] == [{"type": "text", "text": "Yes."}]
    assert "tools" not in behind.asked[-1]


async def test_an_engine_that_cannot_say_it_is_left_out_of_the_plan(mixed: Line, behind: Upstream) -> None:
    behind.says = Answer("Yes.")
    got = await mixed.post("/messages", _asked("both"))
    assert got.headers["x-understudy-engine"] == "small"
    got = await mixed.post("/messages", _asked("both", tools=[SEARCH]))
    assert got.headers["x-understudy-engine"] == "claude" and behind.asked[-1]["tools"] == [SEARCH]
    assert "x-understudy-failed-over" not in got.headers


async def test_who_names_an_engine_is_told_what_it_cannot_be_asked(mixed: Line) -> None:
    asked = _asked("both", tools=[SEARCH])
    got = await mixed.post("/messages", asked, {"x-understudy-engine": "small"})
    assert (got.status, got.json["error"]["code"]) == (400, "not_translatable")


async def test_another_engine_stands_in_in_its_own_api(mixed: Line, behind: Upstream) -> None:
    behind.says, behind.only = Answer("Yes."), "messages"
    got = await mixed.chat("Hi", model="both")
    assert got.headers["x-understudy-engine"] == "claude" and got.text == "Yes."
    assert got.headers["x-understudy-failed-over"].startswith("small")


# ---- what stands beside answers


@pytest.mark.parametrize("engine", ["chat", "responses"])
async def test_a_messages_client_counts_tokens_anywhere(gate: Line, engine: str) -> None:
    client = Client("messages", gate)
    question = [{"role": "user", "content": "What is six times seven?"}]
    short = await client.anthropic.messages.count_tokens(model=engine, messages=question)
    tools = [{"name": "weather", "input_schema": SCHEMA}]
    longer = await client.anthropic.messages.count_tokens(model=engine, messages=question, tools=tools)
    assert 5 <= short.input_tokens < longer.input_tokens
    await client.aclose()


async def test_a_responses_client_counts_tokens_anywhere(gate: Line) -> None:
    client = Client("responses", gate)
    told = await client.openai.responses.input_tokens.count(model="messages", input="What is it?")
    assert told.input_tokens > 0
    await client.aclose()


@pytest.mark.parametrize("engine", ["chat", "messages"])
async def test_a_response_is_kept_here_where_its_engine_stores_none(
    gate: Line, behind: Upstream, engine: str
) -> None:
    client = Client("responses", gate)
    behind.says = Answer("Forty-two.")
    first = await client.openai.responses.create(model=engine, input="What is six times seven?")
    await client.openai.responses.create(model=engine, input="Sure?", previous_response_id=first.id)
    said = [(one["role"], str(one["content"])) for one in behind.asked[-1]["messages"]]
    assert [role for role, _ in said] == ["user", "assistant", "user"] and "Forty-two." in said[1][1]
    assert (await client.openai.responses.retrieve(first.id)).output_text == "Forty-two."
    assert (await client.openai.responses.input_items.list(first.id)).data
    await client.aclose()


async def test_a_repeated_question_is_answered_from_memory_in_the_clients_api(
    gate: Line, behind: Upstream
) -> None:
    client = Client("messages", gate)
    behind.says = Answer(TEXT)
    for stream in (False, True, False):
        heard = await client.ask("chat", stream=stream)
        assert (heard.text, heard.prompt, heard.output) == (TEXT, 20, 10)
        await gate.settled()
    assert len(behind.asked) == 1
    await client.aclose()


async def test_what_a_clients_api_has_no_word_for_is_counted(gate: Line, behind: Upstream) -> None:
    behind.says = Answer("Yes.", thought="Hm.")
    got = await gate.chat("Hi", model="messages")
    blocks = got.json["choices"][0]["message"]["thinking_blocks"]
    assert blocks == [{"type": "thinking", "thinking": "Hm.", "signature": "sig+7="}]
    again = [{"role": "user", "content": "Hi"}, got.json["choices"][0]["message"]]
    await gate.chat([*again, {"role": "user", "content": "Sure?"}], model="messages")
    assert behind.asked[-1]["messages"][1]["content"][0] == blocks[0], "it comes back signed"


@STREAMED
async def test_what_an_engine_speaks_passes_as_it_came(gate: Line, behind: Upstream, stream: bool) -> None:
    behind.says = Answer(TEXT, thought="Hm.", calls=CALLS, reason="tool_calls")
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "sig+7="}
    cached = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
    body = _asked("messages", stream=stream, thinking={"type": "enabled", "budget_tokens": 1024})
    body["messages"] = [
        {"role": "user", "content": [cached]},
        {"role": "assistant", "content": [thought, {"type": "redacted_thinking", "data": "x+y="}]},
        {"role": "user", "content": "More."},
    ]
    sent = json.dumps(body, indent=1).encode()
    got = await gate.post("/messages", sent)
    assert behind.bodies[-1] == sent and got.body == behind.sent[-1]


# ---- who asks by itself, and who carries on


async def test_an_engine_of_messages_judges_chat_completions(gate: Line, behind: Upstream) -> None:
    behind.says = Answer("Equal.", prompt=9, output=2)
    engine = gate.gateway.built.engines["messages"]
    bill = Bill({})
    chat = chat_of({"model": "m", "temperature": 0}, [{"role": "user", "content": "Are they equal?"}])
    said = await ask(engine, chat, most_tokens=10, bill=bill, purpose="judge")
    assert (said.text, said.finish_reason, said.usage.tokens) == ("Equal.", "stop", 11)
    assert behind.asked[-1]["messages"] == [{"role": "user", "content": "Are they equal?"}]


async def test_what_cannot_be_said_to_a_judge_is_no_answer(gate: Line, behind: Upstream) -> None:
    engine = gate.gateway.built.engines["messages"]
    chat = chat_of({"model": "m", "logit_bias": {"1": 1}}, [{"role": "user", "content": "Hi"}])
    with pytest.raises(NotAnswered, match="not_translatable"):
        await ask(engine, chat, most_tokens=10, bill=Bill({}), purpose="judge")
    assert not behind.asked


async def test_an_engine_of_another_api_carries_an_answer_on(behind: Upstream, tmp_path: Path) -> None:
    words = [f"word{n}" for n in range(30)]
    behind.says, behind.cut = Answer(" ".join(words)), 12
    async with running() as server, running() as other:
        server.script = behind
        second = other.script = Upstream(Answer(" ".join(words)))
        engines = {
            "first": {"base_url": server.url, "api_key": "k", "apis": ["chat"], "advanced": {"attempts": 1}},
            "second": {"base_url": other.url, "api_key": "k", "apis": ["responses"]},
        }
        models = {"m": {"engines": ["second", "first"]}}
        async with line({"engines": engines, "models": models, "memory": None}) as gate:
            client = Client("chat", gate)
            heard = await client.ask("m", stream=True)
            await client.aclose()
    assert heard.text == " ".join(words) and second.asked[-1]["input"]


async def test_thinking_of_another_api_comes_back_where_it_can_be_read(mixed: Line, behind: Upstream) -> None:
    behind.says = Answer("Yes.", thought="Hm.")
    for stream in (False, True):
        client = Client("messages", mixed)
        heard = await client.ask("alone", stream=stream)
        said = {"role": "assistant", "content": [block.to_dict() for block in heard.raw.content]}
        # Not the same in both rounds: an exact repeat is answered from memory.
        sure = {"role": "user", "content": f"Sure? {stream}"}
        messages = [{"role": "user", "content": "Hi"}, said, sure]
        await mixed.post("/messages", _asked("both", messages=messages), {"x-understudy-engine": "claude"})
        assert behind.asked[-1]["messages"][1]["content"] == [{"type": "text", "text": "Yes."}]
        await mixed.post("/messages", _asked("both", messages=messages), {"x-understudy-engine": "small"})
        again = behind.asked[-1]["messages"][1]
        assert (again["reasoning_content"], again["content"]) == ("Hm.", "Yes.")
        await client.aclose()
