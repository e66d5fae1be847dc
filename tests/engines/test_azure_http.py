"""Azure OpenAI over HTTP: OpenAI's paths as Azure writes them."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from engines.azure_http import AzureHTTP
from engines.engine import EngineInfo, EngineRequest
from tests.engines.asking import PATIENT, asked, chat
from tests.flow.upstream import Upstream

VERSION = "2024-10-21"


async def target(
    upstream: Upstream, asks: EngineRequest, *, model: str | None = None, version: str | None = VERSION
) -> str:
    origin = upstream.url.removesuffix("/v1")
    one = AzureHTTP(
        EngineInfo("a", model), origin, api_version=version, authorization="own", timeouts=PATIENT
    )
    await asked(one, asks)
    await one.aclose()
    call = upstream.call()
    assert call.values("api-key") == ["own"] and call.header("authorization") is None
    return str(call.line.split(b" ")[1].decode())


def post(path: str, body: bytes = b"{}", model: str = "") -> EngineRequest:
    return EngineRequest("POST", path, CIMultiDict({"Authorization": "Bearer client"}), body, model=model)


@pytest.mark.parametrize(
    ("asks", "model", "expected"),
    [
        (chat(), None, f"/openai/deployments/m/chat/completions?api-version={VERSION}"),
        (chat(), "dep-1", f"/openai/deployments/dep-1/chat/completions?api-version={VERSION}"),
        (
            post("/embeddings?x=%20&api-version=old", b'{"model": "e"}'),
            None,
            f"/openai/deployments/e/embeddings?api-version={VERSION}&x=%20",
        ),
        (
            post("/audio/speech", b"not json", "tts"),
            None,
            f"/openai/deployments/tts/audio/speech?api-version={VERSION}",
        ),
        (post("/responses"), "dep-1", f"/openai/responses?api-version={VERSION}"),
        (post("/files"), None, f"/openai/files?api-version={VERSION}"),
    ],
)
async def test_with_a_version_a_deployment_is_asked(
    upstream: Upstream, asks: EngineRequest, model: str | None, expected: str
) -> None:
    assert await target(upstream, asks, model=model) == expected


async def test_without_a_version_the_body_names_the_deployment(upstream: Upstream) -> None:
    asks = post("/chat/completions?api-version=old&x=1")
    assert await target(upstream, asks, model="dep-1", version=None) == "/openai/v1/chat/completions?x=1"


@pytest.mark.parametrize("name", ["..", ".", "a/../../b", "a?b", "a b", "", "a%2f"])
async def test_a_clients_word_leads_to_no_other_path(upstream: Upstream, name: str) -> None:
    assert (
        await target(upstream, post("/embeddings", b"", name)) == f"/openai/embeddings?api-version={VERSION}"
    )
