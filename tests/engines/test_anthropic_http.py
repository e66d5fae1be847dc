"""Anthropic's API over HTTP: where its key stands, and its version."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from engines.anthropic_http import AnthropicHTTP
from engines.engine import EngineInfo, EngineRequest
from tests.engines.asking import PATIENT, asked
from tests.flow.upstream import Upstream


@pytest.mark.parametrize("given", [{}, {"anthropic-version": "2024-01-01", "anthropic-beta": "a,b"}])
async def test_the_key_and_the_version(upstream: Upstream, given: dict[str, str]) -> None:
    one = AnthropicHTTP(EngineInfo("a"), upstream.url, authorization="sk-own", timeouts=PATIENT)
    headers = CIMultiDict({"Authorization": "Bearer client", "x-api-key": "client", **given})
    await asked(one, EngineRequest("POST", "/messages?beta=true", headers, b"{}"))
    await one.aclose()
    call = upstream.call()
    assert call.line == b"POST /v1/messages?beta=true HTTP/1.1"
    assert call.values("x-api-key") == ["sk-own"] and call.header("authorization") is None
    assert call.values("anthropic-version") == [given.get("anthropic-version", "2023-06-01")]
    assert call.header("anthropic-beta") == given.get("anthropic-beta")


async def test_a_clients_own_key_is_passed_on_as_it_came(upstream: Upstream) -> None:
    one = AnthropicHTTP(EngineInfo("a"), upstream.url, timeouts=PATIENT)
    await asked(one, EngineRequest("POST", "/messages", CIMultiDict({"x-api-key": "client"}), b"{}"))
    await one.aclose()
    assert upstream.call().header("x-api-key") == "client"
