"""Which requests are WebSocket handshakes; what the tunnel then does is shown over real sockets in tests/flow."""

from __future__ import annotations

import pytest
from aiohttp import web

from gateway.websocket import wants_upgrade
from router.finished import Journey
from tests.gateway.serving import entry, exchange, get


async def says(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
    response = web.Response(text=str(wants_upgrade(request)))
    response.force_close()
    return response


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        (["Connection: Upgrade", "Upgrade: websocket"], True),
        (["Connection: keep-alive, upgrade", "Upgrade: WebSocket"], True),
        (["Connection: keep-alive", "Connection: Upgrade", "Upgrade: websocket"], True),
        (["Upgrade: websocket"], False),
        (["Connection: keep-alive", "Upgrade: websocket"], False),
        (["Connection: Upgrade"], False),
        (["Connection: Upgrade", "Upgrade: h2c"], False),
        (["Connection: not-upgrade", "Upgrade: websocket"], False),
    ],
)
async def test_a_handshake_is_what_asks_this_hop(headers: list[str], wanted: bool) -> None:
    asked = get("/realtime", *headers).replace(b"Connection: close\r\n", b"")
    async with entry(says) as (port, _):
        assert (await exchange(port, asked)).endswith(str(wanted).encode())
