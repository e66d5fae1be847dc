"""From the settings to the limits of the HTTP server."""

from __future__ import annotations

from gateway.server import ServerLimits
from understudy.settings.config import Listen


def server_limits(listen: Listen) -> ServerLimits:
    """The limits that `listen` asks for."""
    return ServerLimits(
        max_json_bytes=int(listen.max_json_mib * 2**20),
        max_header_bytes=int(listen.max_header_kib * 1024),
        grace_s=listen.grace_s,
    )
