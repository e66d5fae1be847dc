"""OpenTelemetry over real sockets: a collector takes what a gateway sends, as protobuf over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from gateway.telemetry.names import SCHEMA_URL
from tests.aiohttp_server import aiohttp_server
from tests.flow.line import Asked, Line, Upstream, line, upstream

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CANARY, KEY_CANARY = "zq-canary-7d1f", "sk-canary-9e2a"


@dataclass
class Collector:
    """What an OpenTelemetry collector was sent."""

    url: str = ""
    traces: list[ExportTraceServiceRequest] = field(default_factory=list)
    metrics: list[ExportMetricsServiceRequest] = field(default_factory=list)
    raw: bytearray = field(default_factory=bytearray)
    headers: list[dict[str, str]] = field(default_factory=list)
    status: int = 200

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.raw += body
        self.headers.append(dict(request.headers))
        if request.path.endswith("/v1/traces"):
            self.traces.append(ExportTraceServiceRequest.FromString(body))
        else:
            assert request.path.endswith("/v1/metrics")
            self.metrics.append(ExportMetricsServiceRequest.FromString(body))
        return web.Response(status=self.status)

    def spans(self) -> list[Span]:
        return [
            span
            for export in self.traces
            for resource in export.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@asynccontextmanager
async def collector() -> AsyncIterator[Collector]:
    made = Collector()
    async with aiohttp_server(made.handle) as origin:
        made.url = origin
        yield made


def config(large: Upstream, small: Upstream, taken_by: Collector, data: Path, **otel: Any) -> dict[str, Any]:
    def engine(of: Upstream) -> dict[str, Any]:
        return {"base_url": of.url, "api_key": KEY_CANARY, "advanced": {"attempts": 1}}

    return {
        "engines": {"small": engine(small), "large": engine(large)},
        "models": {"gpt-4o": {"engines": ["small", "large"], "policy": "fixed"}},
        "upstream": {"base_url": small.url},
        "memory": {"data_dir": str(data), "examples": {"enabled": False}},
        "otel": {
            "endpoint": taken_by.url,
            "headers": {"x-collector-key": "collectors-own"},
            "advanced": {"metrics_every_s": 1, "timeout_s": 5},
            **otel,
        },
    }


def attributes(of: Any) -> dict[str, Any]:
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value"))
        for each in of
        if each.value.WhichOneof("value") != "array_value"
    }


async def broken(request: web.Request, asked: Asked) -> web.StreamResponse:
    return web.json_response({"error": {"message": "out of order"}}, status=500)


async def asked_in_all_ways(run: Line, large: Upstream) -> None:
    question = f"What is {CANARY}?"
    sent = {"traceparent": f"00-{TRACE}-{PARENT}-01", "Authorization": f"Bearer {KEY_CANARY}-client"}
    assert (await run.chat(question, sent, stream=True)).status == 200
    large.script = None
    assert not (await run.chat(f"{question} Again.", sent)).hit
    assert (await run.chat(f"{question} Again.", sent)).hit
    assert (await run.chat(f"{question} Once more.", {"traceparent": "no traceparent"})).status == 200
    await run.post("/moderations", {"input": CANARY}, sent)


async def test_a_collector_gets_the_conventions_names_and_nothing_of_what_was_said(tmp_path: Path) -> None:
    async with upstream() as large, upstream() as small, collector() as taken_by:
        large.script = broken
        async with line(config(large, small, taken_by, tmp_path)) as run:
            await asked_in_all_ways(run, large)
        spans = taken_by.spans()
        by_id = {span.span_id.hex(): span for span in spans}
        for asked in (*large.asked, *small.asked):
            version, trace_id, span_id, flags = asked.headers["traceparent"].split("-")
            span = by_id[span_id]
            assert span.trace_id.hex() == trace_id and (version, flags) == ("00", "01")
            assert span.kind == Span.SPAN_KIND_CLIENT
            assert by_id[span.parent_span_id.hex()].kind == Span.SPAN_KIND_SERVER
    ours = [span for span in spans if span.trace_id.hex() == TRACE]
    servers = [span for span in ours if span.kind == Span.SPAN_KIND_SERVER]
    assert {span.parent_span_id.hex() for span in servers} == {PARENT}
    assert {span.name for span in servers} >= {"POST chat"}
    assert {attributes(span.attributes)["understudy.outcome"] for span in servers} >= {"hit", "answered"}
    failed, answered, _ = (
        span for span in ours if span.kind == Span.SPAN_KIND_CLIENT and span.name == "chat gpt-4o"
    )
    assert (
        failed.status.code == Status.STATUS_CODE_ERROR
        and attributes(failed.attributes)["error.type"] == "500"
    )
    told = attributes(answered.attributes)
    assert told["gen_ai.operation.name"] == "chat" and told["gen_ai.provider.name"] == "openai"
    assert (told["gen_ai.request.model"], told["gen_ai.response.model"]) == ("gpt-4o", "m")
    assert {"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"} <= set(told)
    scope = taken_by.traces[0].resource_spans[0].scope_spans[0]
    assert scope.schema_url == SCHEMA_URL == "https://opentelemetry.io/schemas/1.41.1"
    resource = attributes(taken_by.traces[0].resource_spans[0].resource.attributes)
    assert resource["service.name"] == "understudy"
    measured = {
        metric.name: metric
        for export in taken_by.metrics
        for of in export.resource_metrics
        for each in of.scope_metrics
        for metric in each.metrics
    }
    assert set(measured) == {
        "gen_ai.client.operation.duration",
        "gen_ai.client.operation.time_to_first_chunk",
        "gen_ai.client.token.usage",
    }
    assert measured["gen_ai.client.token.usage"].unit == "{token}"
    points = measured["gen_ai.client.token.usage"].histogram.data_points
    assert {attributes(point.attributes)["gen_ai.token.type"] for point in points} == {"input", "output"}
    assert {headers["x-collector-key"] for headers in taken_by.headers} == {"collectors-own"}
    assert CANARY.encode() not in taken_by.raw and KEY_CANARY.encode() not in taken_by.raw


async def test_content_is_sent_only_where_it_is_wished_and_may_be_kept(tmp_path: Path) -> None:
    async with upstream() as large, upstream() as small, collector() as taken_by:
        async with line(config(large, small, taken_by, tmp_path, content=True)) as run:
            await run.chat("What is known of Ada?")
            await run.chat("What is known of Bob?", {"Cache-Control": "no-store"})
        assert b"known of Ada" in taken_by.raw and b"Forty-two." in taken_by.raw
        assert b"known of Bob" not in taken_by.raw


@pytest.mark.slow
async def test_a_collector_that_fails_or_hangs_costs_no_request_and_is_counted(tmp_path: Path) -> None:
    async with upstream() as large, upstream() as small, collector() as taken_by:
        taken_by.status = 400
        async with line(config(large, small, taken_by, tmp_path)) as run:
            assert (await run.chat("One?")).status == 200
            while b'understudy_telemetry_total{result="failed",signal="spans"}' not in await figures(run):
                await asyncio.sleep(0.05)
        hangs = asyncio.Event()

        async def hang(request: web.Request) -> web.Response:
            await hangs.wait()
            return web.Response()

        async with aiohttp_server(hang) as origin:
            taken_by.url = origin
            late = config(large, small, taken_by, tmp_path)
            late["otel"]["advanced"] |= {"timeout_s": 0.2}
            async with line(late) as run:
                answers = await asyncio.gather(*(run.chat(f"Question {n}?") for n in range(20)))
            hangs.set()
        assert {answer.status for answer in answers} == {200}


async def test_without_a_collector_a_clients_traceparent_travels_as_it_came(tmp_path: Path) -> None:
    async with upstream() as large, upstream() as small, collector() as taken_by:
        quiet = config(large, small, taken_by, tmp_path) | {"otel": {}}
        async with line(quiet) as run:
            await run.chat("One?", {"traceparent": f"00-{TRACE}-{PARENT}-01"})
        assert large.asked[0].headers["traceparent"] == f"00-{TRACE}-{PARENT}-01"
    assert not taken_by.headers


async def figures(run: Line) -> bytes:
    async with run.session.get(run.url.removesuffix("/v1") + "/metrics") as answer:
        return await answer.read()
