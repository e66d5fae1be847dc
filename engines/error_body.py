"""An error of our own in OpenAI's shape: what an OpenAI SDK turns into the right exception class. Pure functions."""

from __future__ import annotations

import orjson

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
}
_QUOTA = "insufficient_quota"


def error_body(status: int, message: str, *, code: str | None = None, param: str | None = None) -> bytes:
    """The JSON body of an error."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    if code == _QUOTA:
        # Clients tell by it that waiting is of no use.
        kind = _QUOTA
    return orjson.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}})


def error_event(message: str, code: str) -> bytes:
    """An SSE event that tells a client its stream broke. The leading blank line ends whatever event was cut."""
    return b"\n\ndata: " + error_body(502, message, code=code) + b"\n\n"
