"""Which handler a target finds."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from engines.errors import RequestError
from gateway.journey import arrival
from gateway.routes import RouteTable
from router.finished import Journey


async def health(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
    return web.Response(text="health")


async def chat(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
    return web.Response(text="chat")


async def everything(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
    return web.Response(text="everything")


def table(*prefixes: str, otherwise: bool = True) -> RouteTable:
    return RouteTable(
        prefixes=prefixes or ("/v1",),
        own={("GET", "/healthz"): health},
        endpoints={("POST", "/chat/completions"): chat},
        otherwise=everything if otherwise else None,
    )


@pytest.mark.parametrize(
    ("method", "target", "handler", "rest", "needs_key"),
    [
        ("GET", "/healthz", health, "/healthz", False),
        ("GET", "/healthz?x", health, "/healthz?x", False),
        ("POST", "/v1/chat/completions", chat, "/chat/completions", True),
        ("POST", "/v1/chat/completions?x=%20", chat, "/chat/completions?x=%20", True),
        ("GET", "/v1/chat/completions", everything, "/chat/completions", True),
        ("POST", "/v1/chat/completions/", chat, "/chat/completions/", True),
        ("POST", "/v1//chat/completions", chat, "//chat/completions", True),
        ("POST", "/v1/chat/%63ompletions", chat, "/chat/%63ompletions", True),
        ("POST", "/v1/chat/%2563ompletions", chat, "/chat/%2563ompletions", True),
        ("POST", "/v1/chat%2Fcompletions?x", chat, "/chat%2Fcompletions?x", True),
        ("POST", "/v1/Chat/COMPLETIONS", chat, "/Chat/COMPLETIONS", True),
        ("POST", "/v1/chat/completions;v=1", chat, "/chat/completions;v=1", True),
        ("POST", "/v1/chat/completions#x", chat, "/chat/completions#x", True),
        ("POST", "/v1/chat/completions2", everything, "/chat/completions2", True),
        ("GET", "/v1/chat/completions/id", everything, "/chat/completions/id", True),
        ("GET", "/v1", everything, "", True),
        ("GET", "/v1?x", everything, "?x", True),
        ("GET", "/v1/healthz", everything, "/healthz", True),
    ],
)
def test_a_target_finds_its_handler(
    method: str, target: str, handler: object, rest: str, needs_key: bool
) -> None:
    assert table().find(method, target) == (handler, rest, needs_key)


@pytest.mark.parametrize(
    "target", ["/", "/v2/x", "/v1x", "/V1/x", "/models", "/x?/v1/", "*", "/healthz/x", "//healthz", "//v1/x"]
)
def test_elsewhere_is_404_and_says_where_requests_go(target: str) -> None:
    with pytest.raises(RequestError, match="below /v1") as refused:
        table().find("GET", target)
    assert (refused.value.status, refused.value.code) == (404, "unknown_url")


def test_own_pages_take_only_their_method() -> None:
    with pytest.raises(RequestError) as refused:
        table().find("POST", "/healthz")
    assert refused.value.status == 405


@pytest.mark.parametrize("target", ["/healthz", "/healthz/", "/healthz?x", "/healthz/?x"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_own_pages_take_head_and_a_slash_at_their_end(method: str, target: str) -> None:
    found = table().find(method, target)
    assert found == (table().find("GET", "/healthz")[0], target, False)


def test_several_prefixes_and_a_trailing_slash() -> None:
    routes = table("/openai/v1/", "/v1")
    assert routes.find("GET", "/openai/v1/models")[1] == "/models"
    assert routes.find("GET", "/v1/models")[1] == "/models"
    with pytest.raises(RequestError, match="/openai/v1 or /v1"):
        routes.find("GET", "/x")


def test_without_an_upstream_other_endpoints_are_404() -> None:
    routes = table(otherwise=False)
    assert routes.find("POST", "/v1/chat/completions")[0] is chat
    with pytest.raises(RequestError, match="No default upstream"):
        routes.find("GET", "/v1/files")


@pytest.mark.parametrize(
    ("target", "handler", "rest"),
    [
        ("/openai/v1/chat/completions?api-version=x&a=1", chat, "/chat/completions?a=1"),
        ("/openai/files?api-version=x", everything, "/files"),
    ],
)
def test_azures_paths_find_the_same_handlers(target: str, handler: object, rest: str) -> None:
    assert table().find("POST", target) == (handler, rest, True)


async def test_a_deployment_is_the_model_that_is_asked_for() -> None:
    found, rest, needs_key = table().find("POST", "/openai/deployments/gpt/chat/completions?api-version=x")
    assert (rest, needs_key) == ("/deployments/gpt/chat/completions", True)
    journey = Journey(arrival("POST", "/"))
    answer = await found(make_mocked_request("POST", "/"), rest, journey)
    assert isinstance(answer, web.Response) and answer.text == "chat" and journey.deployment == "gpt"
    with pytest.raises(RequestError) as refused:
        table(otherwise=False).find("POST", "/openai/deployments/gpt/files")
    assert refused.value.status == 404


def test_below_no_prefix_at_all_azure_s_paths_are_still_azure_s() -> None:
    bare = table("/v1", "/")
    assert bare.find("POST", "/chat/completions") == (chat, "/chat/completions", True)
    assert bare.find("POST", "/v1/chat/completions") == (chat, "/chat/completions", True)
    assert bare.find("GET", "/healthz")[0] is health
    _, rest, _ = bare.find("POST", "/openai/deployments/m/chat/completions?api-version=2024-10-21")
    assert rest == "/deployments/m/chat/completions"
