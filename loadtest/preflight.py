"""Sends one request before the load, so that a dead or wrong endpoint gives one sentence instead of 10,000 errors."""

from __future__ import annotations

import http.client
import socket
import ssl
from dataclasses import replace
from typing import Any

import orjson

from loadtest.client import tls_context
from loadtest.errors import EndpointError
from loadtest.events import StreamReader, read_message
from loadtest.plan import LoadPlan
from loadtest.workload import Workload

_WAIT_S = 30.0


def find_model(plan: LoadPlan) -> LoadPlan:
    """The plan with a model: the configured one, else the first that /v1/models lists.

    Raises EndpointError if the endpoint is down, or lists no model and none is configured.
    """
    if plan.workload.model:
        return plan
    status, _, body = ask(plan, "GET", f"{plan.target.root}/models", None)
    try:
        listed = orjson.loads(body)["data"]
        name = str(listed[0]["id"])
    except (ValueError, KeyError, IndexError, TypeError):
        raise EndpointError(
            f"{plan.target.base_url} lists no models (GET {plan.target.root}/models: HTTP {status},"
            f" {_excerpt(body)}): name one with --model, or check that this is an OpenAI-compatible API"
        ) from None
    return replace(plan, workload=replace(plan.workload, model=name))


def check(plan: LoadPlan) -> None:
    """Sends one request of the run. Raises EndpointError with what is wrong with the endpoint."""
    workload = Workload(plan)
    body = workload.build(workload.choose()).data
    status, kind, answer = ask(plan, "POST", plan.target.path, body)
    where = f"{plan.target.base_url} (POST {plan.target.path})"
    if status in (401, 403):
        raise EndpointError(
            f"{where} refuses us with HTTP {status}: give a key with --api-key-env NAME or --header"
        )
    if status == 404:
        raise EndpointError(
            f"{where} answers HTTP 404 ({_excerpt(answer)}): it has no such path, or no model {plan.workload.model!r}"
        )
    if status == 429 or status >= 500:
        return  # it is there, and busy or failing: that is for the run to measure
    if status != 200:
        raise EndpointError(f"{where} answers HTTP {status}: {_excerpt(answer)}")
    if "text/event-stream" in kind:
        stream = StreamReader()
        stream.feed(answer)
        if not stream.tokens_seen and not stream.complete:
            raise EndpointError(f"{where} streams events that are no OpenAI chunks: {_excerpt(answer)}")
        return
    wrong, *_ = read_message(answer)
    if wrong:
        raise EndpointError(
            f"{where} does not speak OpenAI's API ({wrong}; {kind or 'no content-type'}): {_excerpt(answer)}"
        )


def ask(plan: LoadPlan, method: str, path: str, body: bytes | None) -> tuple[int, str, bytes]:
    """(status, content-type, body) of one plain request. Raises EndpointError if no answer comes."""
    target = plan.target
    wait_s = min(plan.timeout_s, _WAIT_S)
    connection: http.client.HTTPConnection
    if target.tls:
        connection = http.client.HTTPSConnection(
            target.host, target.port, timeout=wait_s, context=tls_context(plan)
        )
    else:
        connection = http.client.HTTPConnection(target.host, target.port, timeout=wait_s)
    headers = {
        "content-type": "application/json",
        "user-agent": "understudy-loadtest",
        **dict(target.headers),
    }
    try:
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        return response.status, response.headers.get("content-type", ""), response.read()
    except Exception as error:
        raise EndpointError(_why(error, plan, wait_s)) from None
    finally:
        connection.close()


def _why(error: Exception, plan: LoadPlan, wait_s: float) -> str:
    target = plan.target
    place = f"{target.host}:{target.port}"
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens at {place} (connection refused): is the server running?"
    if isinstance(error, socket.gaierror):
        return f"the host name {target.host!r} cannot be resolved: {error.strerror}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of {place} is not trusted ({error.verify_message}): use --insecure to go on regardless"
    if isinstance(error, ssl.SSLError):
        return f"{place} does not speak TLS as expected ({error.reason}): is it an http:// endpoint?"
    if isinstance(error, TimeoutError):
        return f"{place} did not answer within {wait_s:g} s"
    if isinstance(error, http.client.HTTPException):
        return f"{place} does not speak HTTP ({type(error).__name__}: {str(error)[:80]!r})"
    return f"{place} cannot be asked: {getattr(error, 'strerror', None) or error}"


def _excerpt(body: bytes) -> str:
    text: Any = body[:160].decode("utf-8", "replace")
    return repr(" ".join(text.split()))
