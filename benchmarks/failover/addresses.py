"""Addresses where nobody answers as an engine does: closed, silent to a connection, or with a certificate nobody trusts."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import tempfile
import threading
from pathlib import Path

from benchmarks.processes import free_port

_OPEN: list[socket.socket] = []
"""Held until the process ends."""


def unknown() -> str:
    """A name that nobody knows (RFC 6761)."""
    return "http://no-such-engine.invalid/v1"


def closed() -> str:
    """A port where nobody listens."""
    return f"http://127.0.0.1:{free_port()}/v1"


def silent() -> str:
    """A port where connections are neither accepted nor refused: its queue is full, so the system drops what comes."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(0)
    address = listening.getsockname()
    _OPEN.append(listening)
    for _ in range(4):
        waiting = socket.socket()
        waiting.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            waiting.connect(address)
        _OPEN.append(waiting)
    return f"http://127.0.0.1:{address[1]}/v1"


def without_tls() -> str:
    """TLS where none is spoken: a server that says something else."""
    return _served("https", None)


def self_signed() -> str:
    """TLS with a certificate that nobody trusts. Needs the program openssl."""
    folder = Path(tempfile.mkdtemp(prefix="understudy-failover-"))
    certificate, key = folder / "c.pem", folder / "k.pem"
    words = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=127.0.0.1 "
        f"-addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}"
    )
    subprocess.run(words.split(), check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return _served("https", context)


def _served(scheme: str, context: ssl.SSLContext | None) -> str:
    listening = socket.create_server(("127.0.0.1", 0))
    _OPEN.append(listening)
    threading.Thread(target=_serve, args=(listening, context), daemon=True).start()
    return f"{scheme}://127.0.0.1:{listening.getsockname()[1]}/v1"


def _serve(listening: socket.socket, context: ssl.SSLContext | None) -> None:
    while True:
        connection, _ = listening.accept()
        with contextlib.suppress(OSError), connection:
            if context is None:
                connection.sendall(
                    b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
            else:
                context.wrap_socket(connection, server_side=True).close()
