"""The official Python SDK runs unchanged: only its `base_url` names the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.flow.openai_upstream import ERRORS, FILE, TEXT, TOOL_CALL, answers
from tests.flow.process import Gateway
from tests.flow.upstream import Call, Upstream

openai = pytest.importorskip("openai")

ASKED = [{"role": "user", "content": "hi"}]
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
]


@pytest.fixture
def client(gateway: Gateway, upstream: Upstream) -> Iterator[openai.OpenAI]:
    upstream.plays(answers)
    with openai.OpenAI(base_url=gateway.url, api_key="sk-test", max_retries=0) as client:
        yield client


def test_a_chat(client: openai.OpenAI, upstream: Upstream) -> None:
    answer = client.chat.completions.create(
        model="m", messages=ASKED, temperature=0.5, extra_body={"a_parameter_of_next_year": [1]}
    )
    assert answer.choices[0].message.content == "".join(TEXT)
    assert answer.usage.total_tokens == 11 and answer.a_field_of_next_year == {"x": 1}
    assert answer._request_id == "req_1"
    call = upstream.call()
    assert call.json()["a_parameter_of_next_year"] == [1]
    assert call.header("Authorization") == "Bearer sk-test" and call.header("x-stainless-lang") == "python"


def test_a_stream(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="m", messages=ASKED, stream=True, stream_options={"include_usage": True}
        )
    )
    assert [c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content] == TEXT
    assert chunks[-1].usage.total_tokens == 11


def test_leaving_a_stream_early_ends_it_upstream(client: openai.OpenAI, upstream: Upstream) -> None:
    def script(call: Call) -> None:
        call.begin()
        call.chunk(b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n')
        assert call.hung_up()

    upstream.plays(script)
    with client.chat.completions.create(model="m", messages=ASKED, stream=True) as stream:
        next(iter(stream))
    assert upstream.call().was_left()


def test_tools(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="m", messages=ASKED, tools=TOOLS)
    assert whole.choices[0].finish_reason == "tool_calls"
    assert whole.choices[0].message.tool_calls[0].function.arguments == TOOL_CALL["function"]["arguments"]
    pieces = [
        chunk.choices[0].delta.tool_calls[0].function.arguments
        for chunk in client.chat.completions.create(model="m", messages=ASKED, tools=TOOLS, stream=True)
        if chunk.choices[0].delta.tool_calls
    ]
    assert "".join(pieces) == '{"city":"Oslo"}'


def test_the_streaming_helper(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="m", messages=ASKED) as stream:
        assert stream.get_final_completion().choices[0].message.content == "".join(TEXT)


def test_embeddings(client: openai.OpenAI) -> None:
    answer = client.embeddings.create(model="e", input=["a", "b"], encoding_format="float")
    assert [item.embedding for item in answer.data] == [[0.5, -0.25, 0], [0.5, -0.25, 1]]


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["m"]


def test_files(client: openai.OpenAI) -> None:
    assert client.files.create(file=("notes.bin", FILE), purpose="user_data").id == "file-1"
    assert client.files.content("file-1").read() == FILE
    with client.files.with_streaming_response.content("file-1") as response:
        assert b"".join(response.iter_bytes(1000)) == FILE


def test_raw_responses(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(model="m", messages=ASKED)
    assert raw.status_code == 200 and raw.headers["x-request-id"] == "req_1"
    assert raw.headers["x-understudy-decision-id"]
    assert raw.parse().choices[0].message.content == "".join(TEXT)


CLASSES = {
    "bad": openai.BadRequestError,
    "key": openai.AuthenticationError,
    "forbidden": openai.PermissionDeniedError,
    "ghost": openai.NotFoundError,
    "conflict": openai.ConflictError,
    "odd": openai.UnprocessableEntityError,
    "busy": openai.RateLimitError,
    "broken": openai.InternalServerError,
}


@pytest.mark.parametrize("model", CLASSES)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_of_the_upstream_become_the_right_exception(
    client: openai.OpenAI, model: str, stream: bool
) -> None:
    status, error = ERRORS[model]
    with pytest.raises(CLASSES[model]) as raised:
        client.chat.completions.create(model=model, messages=ASKED, stream=stream)
    assert raised.value.status_code == status and raised.value.body == error
    assert raised.value.request_id == "req_1"


def test_a_cut_stream_is_an_error_and_never_a_short_answer(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APIError) as raised:
        list(client.chat.completions.create(model="cut", messages=ASKED, stream=True))
    assert "upstream" in str(raised.value)


def test_errors_of_the_gateway_become_the_right_exception(
    gateway: Gateway, serving: Gateway, upstream: Upstream
) -> None:
    with openai.OpenAI(base_url=serving.url, api_key="sk-test", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as wrong:
            client.chat.completions.create(model="m", messages="hi")
        assert wrong.value.param == "messages" and wrong.value.type == "invalid_request_error"
    with openai.OpenAI(base_url=gateway.url, api_key="sk-test", max_retries=0) as client:
        upstream.plays(lambda call: call.reset())
        with pytest.raises(openai.InternalServerError) as dead:
            client.chat.completions.create(model="m", messages=ASKED)
        assert dead.value.status_code == 502 and dead.value.code == "upstream_connection_failed"
    with openai.OpenAI(base_url=gateway.url.replace("/v1", "/v2"), api_key="sk-test", max_retries=0) as lost:
        with pytest.raises(openai.NotFoundError, match="base_url"):
            lost.models.list()


def test_the_asynchronous_client(gateway: Gateway, upstream: Upstream) -> None:
    upstream.plays(answers)

    async def ask() -> list[str]:
        async with openai.AsyncOpenAI(base_url=gateway.url, api_key="sk-test", max_retries=0) as client:
            streams = [
                await client.chat.completions.create(model="m", messages=ASKED, stream=True) for _ in range(5)
            ]
            return [
                "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
                for stream in streams
            ]

    assert asyncio.run(ask()) == ["".join(TEXT)] * 5
