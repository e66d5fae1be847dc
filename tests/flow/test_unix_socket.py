"""A gateway that listens on a Unix socket, too: every worker answers there, and the file is there as long as it is."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

from tests.flow.process import running

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n"


def asked(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(60)
        client.connect(str(path))
        client.sendall(HEALTH)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        return answer


def test_a_unix_socket_is_listened_on_beside_the_port(tmp_path: Path) -> None:
    path = tmp_path / "gateway.sock"
    (tmp_path / "config.yaml").write_text(
        f"listen: {{port: 0, workers: 2, unix_socket: {path}}}\n"
        "upstream: {base_url: http://127.0.0.1:9/v1}\nmemory: null\nadmin: {enabled: false}\n"
    )
    # Left by one that was killed.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as before:
        before.bind(str(path))
    with running("--config", str(tmp_path / "config.yaml"), workers=2) as gateway:
        assert all(asked(path).startswith(b"HTTP/1.1 200 OK") for _ in range(10)), gateway.log()
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert not path.exists()
