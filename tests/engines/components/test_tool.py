"""Tools: arguments of a schema go in, a text comes out, and effects happen once."""

from __future__ import annotations

import json
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import pytest

from engines.components.component import ComponentError, ToolShape
from engines.components.registry import ComponentRegistry, over_http
from engines.components.tool import header_value
from tests.engines.components.asking import spec, work
from tests.flow.upstream import Upstream

ARGS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
    "additionalProperties": False,
}
PLAIN = ToolShape(ARGS, None, "")


def registry(upstream: Upstream, shape: ToolShape = PLAIN) -> ComponentRegistry:
    return ComponentRegistry([over_http(spec("tool", f"{upstream.url}/weather", tool=shape))])


async def call(components: ComponentRegistry, args: dict[str, Any], *, may_retry: bool = True) -> str:
    return await components.call("c", args, work(), "run_1:step", may_retry)


async def test_arguments_go_as_json_of_the_schema(upstream: Upstream) -> None:
    upstream.plays(lambda one: one.answer(b'{"deg": 12}'))
    components = registry(upstream)
    # Values of steps are texts, and the schema wants a number.
    assert await call(components, {"city": "42", "days": "3"}) == '{"deg": 12}'
    asked = upstream.call()
    assert asked.json() == {"city": "42", "days": 3} and asked.header("idempotency-key") == "run_1:step"
    await components.aclose()


async def test_by_get_they_are_values_of_the_query(upstream: Upstream) -> None:
    upstream.plays(lambda one: one.answer(b"mild"))
    components = registry(upstream, ToolShape(ARGS, None, "", "GET"))
    assert await call(components, {"city": "a&days=9/../#", "days": 2}) == "mild"
    target = urlsplit(upstream.call().target.decode())
    assert target.path == "/v1/weather" and parse_qsl(target.query) == [
        ("city", "a&days=9/../#"),
        ("days", "2"),
    ]
    await components.aclose()


async def test_a_workflow_names_no_value_of_the_query(upstream: Upstream) -> None:
    shape = ToolShape({"type": "object", "properties": {"q": {}, "admin": {}}}, None, "", "GET")
    made = spec("tool", f"{upstream.url}/weather?admin=0", tool=shape)
    components = ComponentRegistry([over_http(made)])
    upstream.plays(lambda one: one.answer(b"ok"))
    assert await call(components, {"q": 1}) == "ok" and upstream.call().target == b"/v1/weather?admin=0&q=1"
    for name in ("admin", "other", "a&b"):
        with pytest.raises(ComponentError, match="was not asked"):
            await call(components, {name: "1"})
    assert len(upstream.calls) == 1
    await components.aclose()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({}, "lacks 'city'"),
        ({"city": 1}, "/city must be string, and is a number"),
        ({"city": "a", "days": "soon"}, "/days must be integer, and is a text of 4 characters"),
        ({"city": "a", "days": 0}, "/days is out of its range"),
        ({"city": "a", "url": "x"}, "has 'url', which its schema does not know"),
    ],
)
async def test_what_is_not_of_the_schema_is_not_asked(
    upstream: Upstream, args: dict[str, Any], says: str
) -> None:
    components = registry(upstream)
    with pytest.raises(ComponentError) as failed:
        await call(components, args)
    assert says in failed.value.message and "was not asked" in failed.value.message and not upstream.calls
    await components.aclose()


async def test_what_is_taken_of_an_answer(upstream: Upstream) -> None:
    answer = {"type": "object", "required": ["report"]}
    components = registry(upstream, ToolShape(ARGS, answer, "/report"))
    for body, text in (({"report": "mild"}, "mild"), ({"report": {"deg": [1]}}, '{"deg":[1]}')):
        upstream.plays(lambda one, body=body: one.answer(json.dumps(body).encode()))
        assert await call(components, {"city": "a"}) == text
    for body, says in (
        ({"no": 1}, "lacks 'report'"),
        ({"report": "  "}, "without text"),
        ([], "must be object, and is an array of 0"),
    ):
        upstream.plays(lambda one, body=body: one.answer(json.dumps(body).encode()))
        with pytest.raises(ComponentError, match=says):
            await call(components, {"city": "a"})
    await components.aclose()


async def test_without_a_schema_a_text_is_taken_as_it_comes(upstream: Upstream) -> None:
    components = registry(upstream)
    for body, text in (
        (b'"a \\u00f6"', "a ö"),
        (b'"open', '"open'),
        ("ö".encode(), "ö"),
        (b"\xff", "\ufffd"),
    ):
        upstream.plays(lambda one, body=body: one.answer(body))
        assert await call(components, {"city": "a"}) == text
    upstream.plays(lambda one: one.answer(b""))
    with pytest.raises(ComponentError, match="without text"):
        await call(components, {"city": "a"})
    await components.aclose()


async def test_what_has_effects_is_asked_once(upstream: Upstream) -> None:
    upstream.plays(lambda one: one.answer(b"", 503))
    components = registry(upstream)
    with pytest.raises(ComponentError, match="status 503"):
        await call(components, {"city": "a"}, may_retry=False)
    assert len(upstream.calls) == 1
    with pytest.raises(ComponentError, match="status 503"):
        await call(components, {"city": "a"})
    assert len(upstream.calls) == 3
    await components.aclose()


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_what_has_effects_is_sent_once_where_its_server_hangs_up(
    upstream: Upstream, method: Literal["POST", "GET"]
) -> None:
    components = registry(upstream, ToolShape(ARGS, None, "", method))
    upstream.plays(lambda one: one.answer(b"ok", keep=True))
    assert await call(components, {"city": "a"}, may_retry=False) == "ok"
    # It may have taken effect: nobody knows.
    upstream.plays(lambda one: None)
    with pytest.raises(ComponentError, match="without answering"):
        await call(components, {"city": "a"}, may_retry=False)
    assert len(upstream.calls) == 2
    await components.aclose()


async def test_what_is_too_long_for_a_query_is_not_asked(upstream: Upstream) -> None:
    components = registry(upstream, ToolShape(ARGS, None, "", "GET"))
    with pytest.raises(ComponentError, match="was not asked"):
        await call(components, {"city": "a" * 100_000})
    assert not upstream.calls
    await components.aclose()


async def test_what_json_has_not_is_no_number(upstream: Upstream) -> None:
    components = registry(upstream, ToolShape({"properties": {"days": {"type": "number"}}}, None, ""))
    for days in ("Infinity", "-Infinity", "NaN", "1e999"):
        with pytest.raises(ComponentError, match="must be number"):
            await call(components, {"days": days})
    assert not upstream.calls
    await components.aclose()


def test_a_key_that_is_no_header_becomes_a_digest() -> None:
    assert header_value("run_1:step[2]") == "run_1:step[2]"
    for odd in ("a\r\nX: 1", "ö", "", "x" * 300):
        assert header_value(odd).isalnum() and len(header_value(odd)) == 32
