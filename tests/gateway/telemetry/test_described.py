from __future__ import annotations

import json
from typing import Any

from engines.chat import Usage
from engines.errors import Kind
from engines.tracing import Trace, UpstreamCall
from engines.trail import Tried
from gateway.telemetry.content import asked_messages
from gateway.telemetry.described import Described, Describer, SpanKind
from gateway.telemetry.providers import providers
from router.asked import Arrival, Controls
from router.finished import Journey, Outcome
from tests.finished import chat_request, finished

ANSWER = json.dumps(
    {
        "model": "gpt-4o-2024-08-06",
        "choices": [{"message": {"role": "assistant", "content": "Paris."}, "finish_reason": "stop"}],
    }
).encode()


def call(**changes: Any) -> UpstreamCall:
    given: dict[str, Any] = {"began": 100.1, "ended": 100.9, "status": 200, "first_chunk_at": 100.3}
    return UpstreamCall("c" * 16, "large", "", "api.openai.com", 443, "gpt-4o", **(given | changes))


def described(*calls: UpstreamCall, content: bool = False, flags: str = "01", **changes: Any) -> Described:
    trace = Trace("a" * 32, "b" * 16, flags, calls=list(calls))
    given: dict[str, Any] = {
        "api": "chat",
        "trace": trace,
        "path": "/v1/chat/completions",
        "engine": "large",
        "body": ANSWER,
        "usage": Usage(7, 3, 5),
        "ended_at": 101.0,
        "tenant_name": "acme",
    }
    return Describer(providers({}), content)(finished(**(given | changes)))


def test_a_request_is_a_server_span_with_a_client_span_for_each_call() -> None:
    server, failed, answered = described(
        call(began=100.0, ended=100.1, status=0, error="timeout_connect", first_chunk_at=None), call()
    ).spans
    assert (server.kind, failed.kind, answered.kind) == (SpanKind.SERVER, SpanKind.CLIENT, SpanKind.CLIENT)
    assert server.parent_id == "b" * 16 and failed.parent_id == answered.parent_id == server.span_id
    assert {span.trace_id for span in (server, failed, answered)} == {"a" * 32}
    assert (server.name, answered.name) == ("POST chat", "chat gpt-4o")
    assert (server.start_ns, server.end_ns) == (1000 * 10**9, 1001 * 10**9)
    assert server.attributes["understudy.tenant"] == "acme" and not server.error
    assert failed.error and failed.attributes["error.type"] == "timeout_connect"
    assert "gen_ai.usage.input_tokens" not in failed.attributes, "who answers is paid"
    assert answered.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.response.model": "gpt-4o-2024-08-06",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "http.response.status_code": 200,
        "server.address": "api.openai.com",
        "server.port": 443,
        "understudy.engine": "large",
    }


def test_metrics_are_durations_first_chunks_and_tokens() -> None:
    measured = {
        (each.metric, each.attributes.get("gen_ai.token.type")): each.value
        for each in described(call()).measurements
    }
    assert {key: round(value, 3) for key, value in measured.items()} == {
        ("gen_ai.client.operation.duration", None): 0.8,
        ("gen_ai.client.operation.time_to_first_chunk", None): 0.2,
        ("gen_ai.client.token.usage", "input"): 7,
        ("gen_ai.client.token.usage", "output"): 3,
    }


def test_a_trace_that_is_not_sampled_is_measured_only() -> None:
    found = described(call(), flags="00")
    assert not found.spans and found.measurements


def test_a_hit_has_a_server_span_only() -> None:
    (server,) = described(outcome=Outcome.HIT, usage=None, hit=ANSWER, engine="").spans
    assert server.attributes["understudy.outcome"] == "hit"


def test_failures_say_of_which_kind_they_are() -> None:
    broken = Tried("large", "", Kind.BROKEN, 200, 0.1)
    server, client = described(call(), outcome=Outcome.FAILED, trail=(broken,)).spans
    assert server.error and server.attributes["error.type"] == client.attributes["error.type"] == "broken"
    server, client = described(call(status=429), outcome=Outcome.UPSTREAM_ERROR, status=429).spans
    assert client.attributes["error.type"] == "429" and client.error and not server.error
    server, _ = described(call(), outcome=Outcome.ABORTED, status=0).spans
    assert server.attributes["error.type"] == "client_gone"


def test_no_content_is_sent_unless_that_is_wished_and_allowed() -> None:
    chat = chat_request("What is the capital of France?")
    assert "France" not in str(described(call(), chat=chat).spans)
    _, client = described(call(), chat=chat, content=True).spans
    asked = json.loads(str(client.attributes["gen_ai.input.messages"]))
    assert asked == [
        {"role": "user", "parts": [{"type": "text", "content": "What is the capital of France?"}]}
    ]
    (answered,) = json.loads(str(client.attributes["gen_ai.output.messages"]))
    assert (
        answered["parts"] == [{"type": "text", "content": "Paris."}] and answered["finish_reason"] == "stop"
    )
    kept = described(call(), chat=chat, content=True, controls=Controls(no_store=True)).spans
    assert "France" not in str(kept) and "Paris" not in str(kept)


def test_long_conversations_lose_their_beginning_and_pictures_are_named_only() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"{n} " + "x" * 1000} for n in range(200)]
    kept = json.loads(asked_messages(messages))
    assert 50 < len(kept) < 70 and kept[-1]["parts"][0]["content"].startswith("199 ")
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    said = [{"role": "user", "content": [{"type": "text", "text": "See"}, picture]}]
    assert json.loads(asked_messages(said))[0]["parts"] == [
        {"type": "text", "content": "See"},
        {"type": "image_url"},
    ]


def test_other_requests_are_told_without_genai_names() -> None:
    arrival = Arrival(
        "r", 1.0, 2.0, "GET", "/v1/files/file-1", api="files", trace=Trace("a" * 32, "", "01", calls=[])
    )
    assert arrival.trace is not None
    asked = call(status=200, began=1.0, ended=1.5)
    asked.model = ""
    arrival.trace.calls.append(asked)
    found = Describer(providers({}))(
        Journey(arrival=arrival, outcome=Outcome.ANSWERED, status=200, ended_at=2.0)
    )
    server, client = found.spans
    assert (server.name, server.parent_id, client.name) == ("GET files", "", "GET")
    assert not found.measurements and not any(name.startswith("gen_ai") for name in client.attributes)


def test_the_gateways_own_pages_are_not_sent() -> None:
    arrival = Arrival("r", 1.0, 2.0, "GET", "/metrics", trace=Trace("a" * 32, "", "01"))
    assert Describer(providers({}))(Journey(arrival=arrival, outcome=Outcome.ANSWERED)) == Described()


def test_providers_are_known_by_their_hosts_and_kinds() -> None:
    provider_of = providers({"claude": "anthropic", "local": "vllm"})
    assert provider_of("x", "my-company.openai.azure.com") == "azure.ai.openai"
    assert provider_of("x", "api.mistral.ai") == "mistral_ai"
    assert provider_of("claude", "10.0.0.1") == "anthropic"
    assert provider_of("local", "10.0.0.1") == "vllm"
    assert provider_of("x", "notapi.openai.com.example") == "openai", "whoever speaks OpenAI's API"
