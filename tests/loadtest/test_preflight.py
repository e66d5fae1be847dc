"""A wrong endpoint is told apart in one sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from loadtest.errors import EndpointError
from loadtest.plan import LoadPlan, Target, WorkloadSpec
from loadtest.preflight import check, find_model


def plan(url: str, *headers: tuple[str, str], model: str = "m", stream: bool = True) -> LoadPlan:
    return LoadPlan(
        Target(url, headers=headers), WorkloadSpec(model=model, prompt="x", stream=stream), timeout_s=30.0
    )


def test_a_good_endpoint_passes_and_names_its_first_model(mock: Any) -> None:
    for stream in (True, False):
        check(plan(mock.url, stream=stream))
    assert find_model(plan(mock.url, model="")).workload.model == "mock-small"
    assert find_model(plan(mock.url, model="mine")).workload.model == "mine"


def test_other_endpoints_pass_too(mock: Any) -> None:
    for endpoint in ("embeddings", "completions"):
        asked = plan(mock.url, stream=False)
        check(replace(asked, target=replace(asked.target, endpoint=endpoint)))


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("html", "does not speak OpenAI's API (not JSON; text/html)"),
        ("garbage", "not JSON"),
        ("http=401", "--api-key-env"),
        ("http=404", "no such path, or no model 'm'"),
        ("http=422", "HTTP 422"),
        ("reset", "cannot be asked"),
    ],
)
def test_each_wrong_answer_has_its_sentence(mock: Any, fault: str, said: str, stream: bool) -> None:
    with pytest.raises(EndpointError) as error:
        check(plan(mock.url, ("x-mock-fault", fault), stream=stream))
    assert said in str(error.value)


@pytest.mark.parametrize("fault", ["http=429", "http=503"])
def test_a_busy_endpoint_is_for_the_run_to_measure(mock: Any, fault: str) -> None:
    check(plan(mock.url, ("x-mock-fault", fault)))


async def speak(small_server: Callable[..., Any], words: bytes, url_scheme: str = "http") -> str:
    """What `find_model` says to a server that says `words` to everybody."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(words)
        await writer.drain()

    async with small_server(answer) as url:
        with pytest.raises(EndpointError) as error:
            await asyncio.to_thread(find_model, plan(url.replace("http", url_scheme), model=""))
    return str(error.value)


async def test_what_is_no_http_is_said_to_be_none(small_server: Callable[..., Any]) -> None:
    assert "does not speak HTTP" in await speak(small_server, b"SSH-2.0-OpenSSH_9.2\r\n")


async def test_http_where_https_was_promised(small_server: Callable[..., Any]) -> None:
    assert "TLS" in await speak(small_server, b"HTTP/1.1 400 Bad Request\r\n\r\n", "https")


async def test_json_that_lists_no_models(small_server: Callable[..., Any]) -> None:
    said = await speak(small_server, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    assert "lists no models" in said and "--model" in said


async def test_an_endpoint_that_never_answers(small_server: Callable[..., Any]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with small_server(answer) as url:
        asked = replace(plan(url), timeout_s=0.3)
        with pytest.raises(EndpointError, match=r"did not answer within 0\.3 s"):
            await asyncio.to_thread(check, asked)


async def test_a_dead_endpoint_and_an_unknown_host(small_server: Callable[..., Any]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pass

    async with small_server(answer) as url:
        pass
    with pytest.raises(EndpointError, match="nothing listens at 127"):
        check(plan(url))
    with pytest.raises(EndpointError, match="cannot be resolved"):
        check(plan("http://no-such-host.invalid:80"))
