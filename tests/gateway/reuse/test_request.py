from __future__ import annotations

import json
from typing import Any

import pytest

from engines.apis import Api
from engines.chat import ChatRequest
from engines.codecs.table import CODECS
from gateway.controls import NONE
from gateway.reuse.request import SemanticAsk, semantic_ask
from router.asked import Controls
from understudy.settings.file import parse_config

USER = {"role": "user", "content": "How deep is it?"}


def asked(
    *,
    controls: Controls = NONE,
    key_id: str | None = None,
    endpoint: str = "/v1/c",
    served_by: str = "fixed",
    **fields: Any,
) -> SemanticAsk | None:
    body = {"model": "m", "messages": [USER]} | fields
    chat = ChatRequest(
        json.dumps(body).encode(), body, "m", body["messages"], stream=False, include_usage=False
    )
    return semantic_ask(
        chat,
        controls,
        {"default": 0.02, "key-1": 0.01},
        tenant="t",
        key_id=key_id,
        endpoint=endpoint,
        served_by=served_by,
        max_characters=100,
    )


def test_each_key_has_its_own_delta_and_an_unnamed_one_none() -> None:
    keyless, named = asked(), asked(key_id="key-1")
    assert keyless is not None and keyless.delta == 0.02
    assert named is not None and named.delta == 0.01
    assert asked(key_id="key-2") is None


def test_only_the_last_user_text_may_differ() -> None:
    first = asked()
    other = asked(messages=[{"role": "user", "content": "What is its depth?"}])
    assert first is not None and other is not None
    assert first.same_otherwise() == other.same_otherwise()


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0},
        {"model": "n"},
        {"messages": [{"role": "system", "content": "Be brief."}, USER]},
        {"messages": [{"role": "user", "content": "Of the lake."}, USER]},
        {"messages": [USER, {"role": "assistant", "content": "It is"}]},
        {"messages": [USER | {"name": "ann"}]},
        {"endpoint": "/v1/c?api-version=2"},
        {"served_by": "few_shot"},
    ],
)
def test_whatever_else_differs_makes_another_request(change: dict[str, Any]) -> None:
    first, other = asked(), asked(**change)
    assert first is not None and other is not None
    assert first.same_otherwise() != other.same_otherwise()


def own(api: Api, body: dict[str, Any]) -> SemanticAsk:
    chat = CODECS[api].read(b"{}", body)
    found = semantic_ask(
        chat,
        NONE,
        {"default": 0.02},
        tenant="t",
        key_id=None,
        endpoint="/",
        served_by="",
        max_characters=99,
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("api", "body", "other", "changes"),
    [
        (
            "messages",
            {"model": "m", "max_tokens": 9, "system": "Be brief.", "messages": [USER]},
            {"messages": [USER | {"content": "What is its depth?"}]},
            [{"top_k": 1}, {"max_tokens": 8}, {"system": "Be long."}, {"output_config": {"effort": "low"}}],
        ),
        (
            "responses",
            {"model": "m", "instructions": "Be brief.", "input": "How deep is it?"},
            {"input": "What is its depth?"},
            [{"reasoning": {"effort": "low"}}, {"instructions": "Be long."}, {"truncation": "auto"}],
        ),
    ],
)
def test_of_any_api_only_the_last_text_may_differ(
    api: Api, body: dict[str, Any], other: dict[str, Any], changes: list[dict[str, Any]]
) -> None:
    first = own(api, body).same_otherwise()
    assert own(api, body | other | {"stream": True}).same_otherwise() == first
    for change in changes:
        assert own(api, body | change).same_otherwise() != first, change


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"functions": [{"name": "f"}]},
        {"modalities": ["text", "audio"]},
        {"web_search_options": {}},
        {"messages": []},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Q"}]}]},
        {"messages": [USER, {"role": "tool", "tool_call_id": "1", "content": "5"}, USER]},
        {"messages": [{"role": "user", "content": "x" * 101}]},
        {"messages": [{"role": "user", "content": "  "}]},
    ],
)
def test_what_is_not_one_plain_short_text_takes_no_part(fields: dict[str, Any]) -> None:
    assert asked(**fields) is None


@pytest.mark.parametrize(
    "controls", [Controls(no_store=True), Controls(engine="large"), Controls(max_examples=0)]
)
def test_a_client_that_steers_takes_no_part(controls: Controls) -> None:
    assert asked(controls=controls) is None


def test_no_cache_is_never_read_for() -> None:
    fresh, plain = asked(controls=Controls(no_cache=True)), asked()
    assert fresh is not None and not fresh.reads
    assert plain is not None and plain.reads


@pytest.mark.parametrize("delta", [0, -0.1, 0.21, 1, float("nan")])
def test_a_delta_that_promises_nothing_is_refused_by_name(delta: float) -> None:
    with pytest.raises(Exception, match="key-1"):
        parse_config(
            {
                "upstream": {"base_url": "http://u/v1"},
                "memory": {"semantic_reuse": {"deltas": {"key-1": delta}}},
            }
        )


def test_reuse_without_examples_is_refused() -> None:
    memory = {"examples": {"enabled": False}, "semantic_reuse": {"deltas": {"default": 0.02}}}
    with pytest.raises(Exception, match=r"examples\.enabled"):
        parse_config({"upstream": {"base_url": "http://u/v1"}, "memory": memory})
