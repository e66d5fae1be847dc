"""What kind of failure an error answer is, and whether it is the engine's or the client's own."""

from __future__ import annotations

from engines.errors import Kind

_ABOUT_CONTENT = (
    b"content_filter",
    b"content_policy",
    b"content management policy",
    b"moderation",
    b"safety",
)
_ABOUT_CREDIT = (b"insufficient_quota", b"insufficient_balance", b"billing_hard_limit", b"credit balance")
_REFUSALS = frozenset({401, 402, 403, 404, 410, 413, 425})
LEFT_ALONE = frozenset({401, 402, 404, 410})
"""After three of these in a row an engine is left alone: nothing about a request would change them."""


def kind_of(status: int, body: bytes, *, holds_key: bool, says_when: bool = False) -> Kind | None:
    """The kind of failure of an answer with this status; None where it is none, or is the client's own.

    `body`: the first of it. `holds_key`: the gateway's own key was sent, so that its refusal is the gateway's problem.
    `says_when`: it came with a Retry-After.
    """
    if status < 400:
        return None
    if status == 429:
        return Kind.QUOTA if any(sign in body for sign in _ABOUT_CREDIT) else Kind.LIMITED
    if status >= 500:
        return Kind.LIMITED if says_when and status in (503, 529) else Kind.SERVER
    if not holds_key or status not in _REFUSALS:
        return None
    if status == 402 or (status in (401, 403) and any(sign in body for sign in _ABOUT_CREDIT)):
        return Kind.QUOTA
    if status == 403 and any(sign in body.lower() for sign in _ABOUT_CONTENT):
        return None
    return Kind.REFUSED
