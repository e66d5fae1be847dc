"""Our own errors in OpenAI's shape, as the official SDK sees them."""

from __future__ import annotations

import orjson
import pytest

from engines.answers.tail import Tail
from engines.errors import ConnectFailed, Kind, TimedOut, Unavailable
from engines.sse import events
from gateway.errors import error_body, error_event
from gateway.own_response import engine_error_response, error_response


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "invalid_request_error"),
        (413, "invalid_request_error"),
        (417, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
    ],
)
def test_the_shape_is_whole_and_the_type_fits_the_status(status: int, kind: str) -> None:
    assert orjson.loads(error_body(status, "M", code="c", param="p")) == {
        "error": {"message": "M", "type": kind, "param": "p", "code": "c"}
    }


def test_a_401_says_how_to_authenticate() -> None:
    assert error_response(401, "Who?").headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(("wanted", "said"), [(0.2, "1"), (2.4, "2"), (60, "60")])
def test_retry_after_is_whole_seconds_and_never_zero(wanted: float, said: str) -> None:
    assert error_response(503, "Full.", retry_after_s=wanted).headers["Retry-After"] == said


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConnectFailed("No."), 502),
        (TimedOut("Late.", kind=Kind.TIMEOUT_GAP), 504),
        (Unavailable("Full.", retry_after_s=3), 503),
    ],
)
def test_an_engines_failure_keeps_its_status_and_reason(error: ConnectFailed, status: int) -> None:
    response = engine_error_response(error)
    assert response.status == status and error.message.encode() in response.body


def test_an_error_event_ends_whatever_event_was_cut_and_counts_as_an_ending() -> None:
    cut = b'data: {"choices":[{"delta":{"content":"hel'
    body = cut + error_event("Broke.", "upstream_stream_broken")
    assert orjson.loads(list(events(body))[-1])["error"]["code"] == "upstream_stream_broken"
    tail = Tail()
    tail.feed(body)
    assert tail.finished()
