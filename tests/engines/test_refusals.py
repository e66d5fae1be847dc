"""What an error answer is: the engine's failure, or the client's own."""

from __future__ import annotations

import pytest

from engines.errors import Kind
from engines.refusals import kind_of


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, b"", None),
        (400, b"", None),
        (422, b"", None),
        (401, b"", Kind.REFUSED),
        (402, b"", Kind.QUOTA),
        (403, b"Country not supported", Kind.REFUSED),
        (403, b'{"error":{"code":"content_policy_violation"}}', None),
        (403, b"Your credit balance is too low", Kind.QUOTA),
        (404, b"", Kind.REFUSED),
        (410, b"", Kind.REFUSED),
        (413, b"", Kind.REFUSED),
        (425, b"", Kind.REFUSED),
        (429, b"", Kind.LIMITED),
        (429, b'{"error":{"code":"insufficient_quota"}}', Kind.QUOTA),
        (500, b"", Kind.SERVER),
        (501, b"", Kind.SERVER),
        (530, b"", Kind.SERVER),
    ],
)
def test_a_refusal_of_the_gateways_key_is_the_engines_failure(
    status: int, body: bytes, kind: Kind | None
) -> None:
    assert kind_of(status, body, holds_key=True) is kind


@pytest.mark.parametrize("status", [401, 402, 403, 404, 410, 413, 425])
def test_what_a_clients_own_key_is_refused_is_the_clients(status: int) -> None:
    assert kind_of(status, b"", holds_key=False) is None


def test_a_server_that_says_when_to_come_back_is_limited() -> None:
    assert kind_of(503, b"", holds_key=True, says_when=True) is Kind.LIMITED
    assert kind_of(500, b"", holds_key=True, says_when=True) is Kind.SERVER
