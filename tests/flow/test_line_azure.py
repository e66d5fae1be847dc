"""Azure's clients and upstreams over real sockets, by the OpenAI SDK's own AzureOpenAI, unchanged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import FormData, web

from store.people.limits import Limits, Terms
from tests.flow.line import Asked, Line, Upstream, completion, line, upstream

openai = pytest.importorskip("openai")

ASKED: Any = [{"role": "user", "content": "What is six times seven?"}]
VERSION = "2024-10-21"


@pytest.fixture
async def behind() -> AsyncIterator[Upstream]:
    async with upstream() as made:
        yield made


def config(behind: Upstream, data: Path, **more: Any) -> dict[str, Any]:
    origin = behind.url.removesuffix("/v1")
    azure = {"kind": "azure", "base_url": origin, "api_key": "own", "model": "deployed"}
    price = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 2.0}
    return {
        "engines": {"azure": azure | {"api_version": VERSION, "price": price}, "v1": azure},
        "models": {"gpt-4o": {"engines": ["azure"]}, "gpt-v1": {"engines": ["v1"]}},
        "memory": {"data_dir": str(data), "examples": {"enabled": False}},
    } | more


@pytest.fixture
async def gate(behind: Upstream, tmp_path: Path) -> AsyncIterator[Line]:
    async with line(config(behind, tmp_path / "data")) as made:
        yield made


def sdk(gate: Line, **more: Any) -> Any:
    return openai.AsyncAzureOpenAI(
        azure_endpoint=gate.url.removesuffix("/v1"),
        api_key=more.pop("api_key", "client"),
        api_version="2023-05-15",
        max_retries=0,
        **more,
    )


async def test_a_clients_deployment_is_a_model_and_repeats_hit(gate: Line, behind: Upstream) -> None:
    async with sdk(gate) as client:
        for _ in range(2):
            answer = await client.chat.completions.create(model="gpt-4o", messages=ASKED)
            assert answer.choices[0].message.content == behind.says
            await gate.settled()
        stream = await client.chat.completions.create(model="gpt-4o", messages=ASKED, stream=True)
        said = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
        assert "".join(said) == behind.says
        await gate.settled()
    assert [each.path for each in behind.asked] == [
        f"/openai/deployments/deployed/chat/completions?api-version={VERSION}"
    ]
    assert behind.asked[0].headers["api-key"] == "own" and behind.asked[0].json["model"] == "deployed"
    memory = gate.gateway.memory
    assert memory is not None and memory.requests is not None
    costs = [row.cost_usd for row in memory.requests.recent()]
    assert sorted(cost or 0 for cost in costs) == [0, 0, pytest.approx((7 + 2 * 3) / 1e6)]


async def test_the_path_counts_whatever_the_body_says(gate: Line, behind: Upstream) -> None:
    async with sdk(gate, azure_deployment="gpt-v1") as client:
        await client.chat.completions.create(model="anything", messages=ASKED)
    assert behind.asked[0].path == "/openai/v1/chat/completions"
    assert behind.asked[0].json["model"] == "deployed"
    url = gate.url.removesuffix("/v1") + "/openai/deployments/gpt-4o/embeddings?api-version=x"
    async with gate.session.post(url, json={"input": "Hi"}) as response:
        assert response.status == 200
    assert behind.asked[1].path == f"/openai/deployments/deployed/embeddings?api-version={VERSION}"


async def test_embeddings_responses_and_the_v1_api(gate: Line, behind: Upstream) -> None:
    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        if request.path.endswith("/responses"):
            output = [
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "Forty-two.", "annotations": []}],
                }
            ]
            head = {
                "id": "resp_1",
                "object": "response",
                "created_at": 1,
                "status": "completed",
                "model": "m",
            }
            return web.json_response(head | {"output": output, "tools": [], "parallel_tool_calls": True})
        if request.path.endswith("/embeddings"):
            vector = {"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}
            return web.json_response({"object": "list", "data": [vector], "model": "m"})
        return web.json_response(completion("Forty-two."))

    behind.script = script
    async with sdk(gate) as client:
        for _ in range(2):
            made = await client.embeddings.create(model="gpt-4o", input="Hi", encoding_format="float")
            assert made.data[0].embedding == [0.5, 0.25]
            await gate.settled()
        assert (await client.responses.create(model="gpt-4o", input="Hi")).output_text == "Forty-two."
    base = gate.url.removesuffix("/v1") + "/openai/v1"
    async with openai.AsyncOpenAI(base_url=base, api_key="client", max_retries=0) as plain:
        answer = await plain.chat.completions.create(model="gpt-v1", messages=ASKED)
        assert answer.choices[0].message.content == "Forty-two."
    assert [each.path.partition("?")[0] for each in behind.asked] == [
        "/openai/deployments/deployed/embeddings",
        "/openai/responses",
        "/openai/v1/chat/completions",
    ]


async def test_a_gateway_key_stands_in_api_key_and_says_what_it_may(gate: Line, behind: Upstream) -> None:
    memory = gate.gateway.memory
    assert memory is not None
    _, secret = memory.store.keys.create("team", "laptop")
    async with sdk(gate, api_key=secret) as client, sdk(gate) as stranger:
        await client.chat.completions.create(model="gpt-4o", messages=ASKED)
        with pytest.raises(openai.AuthenticationError):
            await stranger.chat.completions.create(model="gpt-4o", messages=ASKED)
        with pytest.raises(openai.PermissionDeniedError):
            await client.files.list()
        # What the path names counts for what a key may ask, too.
        url = gate.url.removesuffix("/v1") + "/openai/deployments/{}/chat/completions?api-version=x"
        _, narrow = memory.store.keys.create("team", "narrow", terms=Terms(limits=Limits(models=("gpt-4*",))))
        for name, status in (("gpt-4o", 200), ("gpt-v1", 403)):
            body = {"model": "gpt-4o", "messages": ASKED}
            async with gate.session.post(
                url.format(name), json=body, headers={"api-key": narrow}
            ) as response:
                assert response.status == status
    assert len(behind.asked) == 1


async def test_a_form_is_for_the_deployment_of_its_path(gate: Line, behind: Upstream) -> None:
    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response({"text": "Hello."})

    behind.script = script
    url = gate.url.removesuffix("/v1") + "/openai/deployments/gpt-4o/audio/transcriptions?api-version=x"
    form = FormData(quote_fields=False)
    form.add_field("file", b"RIFF", filename="a.wav")
    async with gate.session.post(url, data=form) as response:
        assert (response.status, await response.json()) == (200, {"text": "Hello."})
    assert behind.asked[0].path == f"/openai/deployments/deployed/audio/transcriptions?api-version={VERSION}"
    assert b'name="model"\r\n\r\ndeployed\r\n' in behind.asked[0].body


async def test_other_models_go_to_the_upstream_in_its_own_words(behind: Upstream, tmp_path: Path) -> None:
    async with line({"upstream": {"base_url": behind.url}}) as gate, sdk(gate) as client:
        await client.chat.completions.create(model="gpt-4o", messages=ASKED)
        assert behind.asked[0].path == "/v1/chat/completions" and behind.asked[0].json["model"] == "gpt-4o"
    azure = {"kind": "azure", "base_url": behind.url.removesuffix("/v1"), "api_version": VERSION}
    async with line({"upstream": azure}) as gate:
        got = await gate.chat("Hi", model="dep")
        assert got.text == behind.says
        async with sdk(gate) as client:
            await client.audio.speech.create(model="tts", input="Hi", voice="alloy")
    assert [each.path for each in behind.asked[1:]] == [
        f"/openai/deployments/dep/chat/completions?api-version={VERSION}",
        f"/openai/deployments/tts/audio/speech?api-version={VERSION}",
    ]
