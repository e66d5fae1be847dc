"""Responses over a WebSocket, if requests go through stages: a mere pass-through hands the upgrade to the upstream."""

from __future__ import annotations

from gateway.responses_socket import PATH, ResponsesSocket
from understudy.built import Built


def add_to(built: Built) -> None:
    """Serve handshakes at `/v1/responses`."""
    built.endpoints["GET", PATH] = ResponsesSocket(
        lambda request: built.door(request),
        built.otherwise,
        on=built.config.listen.advanced.responses_websocket,
        max_json_bytes=built.max_json_bytes,
    )
