"""Errors in OpenAI's shape."""

from __future__ import annotations

import orjson

from engines.error_body import error_body, error_event
from engines.sse import events


def test_the_type_follows_the_status() -> None:
    assert orjson.loads(error_body(403, "No.", code="c", param="p")) == {
        "error": {"message": "No.", "type": "permission_error", "param": "p", "code": "c"}
    }
    assert orjson.loads(error_body(418, "No."))["error"]["type"] == "invalid_request_error"
    assert orjson.loads(error_body(502, "No."))["error"]["type"] == "api_error"


def test_an_error_event_ends_the_event_that_was_cut() -> None:
    half, told = events(b'data: {"cut' + error_event("It broke.", "broken"))
    assert half == b'{"cut' and orjson.loads(told)["error"]["code"] == "broken"
