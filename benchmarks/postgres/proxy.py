"""A TCP proxy before a database: adds a delay, stands still, cuts connections; for tests and benchmarks.

`python -m benchmarks.postgres.proxy --to PORT --delay-ms 0.5` prints its port and runs until it is ended. The delay is of
each direction: a round trip takes twice as long.
"""

from __future__ import annotations

import argparse
import contextlib
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable
from types import TracebackType

_CHUNK_BYTES = 1 << 16
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing drops what was not sent, and tells the peer by RST."""
_ANSWER_WITHIN_S = 5.0


class Proxy:
    """Listens on a free port of loopback and passes everything on. A context manager; its threads are daemons."""

    def __init__(self, to_port: int, *, delay_s: float = 0.0) -> None:
        self.to_port = to_port
        self.delay_s = delay_s
        """Of each direction."""
        self._refusing = False
        self._flowing = threading.Event()
        self._flowing.set()
        self._cut_at: tuple[bytes, bool, int] | None = None
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self.cuts = 0
        """Connections that `cut` and `cut_at` have ended."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._thread.start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def cut(self) -> None:
        """End every connection at once; new ones are let in."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.end(cut=True)
            self.cuts += 1

    def refuse(self, *, refusing: bool = True) -> None:
        """End every connection and each new one, as where nothing listens; `refusing=False` lets them in again."""
        self._refusing = refusing
        if refusing:
            self.cut()

    def freeze(self, *, frozen: bool = True) -> None:
        """Pass nothing on, as where packets are lost; `frozen=False` passes on what waits."""
        if frozen:
            self._flowing.clear()
        else:
            self._flowing.set()

    def cut_at(self, said: bytes, *, deliver: bool, times: int = 1) -> None:
        """Cut the connection on which a client says this next; `deliver`: after the server got it.

        The client gets no answer. Happens `times` times, and then no more.
        """
        self._cut_at = (said, deliver, times)

    def close(self) -> None:
        """End everything."""
        self._refusing = True
        self._flowing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._thread.join(5.0)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._link, args=(client,), daemon=True).start()

    def _link(self, client: socket.socket) -> None:
        server: socket.socket | None = None
        try:
            if self._refusing:
                raise ConnectionRefusedError
            server = socket.create_connection(("127.0.0.1", self.to_port))
        except OSError:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            client.close()
            return
        for side in (client, server):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = _Link(client, server)
        with self._lock:
            self._links.add(link)
        if self._refusing:
            link.end(cut=True)
        self._pass(link, client, server, self._heard)
        self._pass(link, server, client, _told)

    def _heard(self, link: _Link, data: bytes) -> tuple[bytes, bool]:
        """What of it goes to the server, and whether the connection ends then."""
        with self._lock:
            if self._cut_at is None or self._cut_at[0] not in data:
                return data, False
            said, deliver, times = self._cut_at
            self._cut_at = (said, deliver, times - 1) if times > 1 else None
            self.cuts += 1
        link.deaf = True
        return data if deliver else b"", True

    def _pass(
        self,
        link: _Link,
        source: socket.socket,
        target: socket.socket,
        heard: Callable[[_Link, bytes], tuple[bytes, bool]],
    ) -> None:
        """Start the two threads of one direction: one receives, one sends when the delay is over."""
        waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

        def receive() -> None:
            data = b"x"
            while data:
                try:
                    data = source.recv(_CHUNK_BYTES)
                except OSError:
                    data = b""
                waiting.put((time.monotonic() + self.delay_s, data))

        def send() -> None:
            cut = False
            try:
                while not cut:
                    due_s, data = waiting.get()
                    late_s = due_s - time.monotonic()
                    if late_s > 0:
                        time.sleep(late_s)
                    self._flowing.wait()
                    if not data:
                        break
                    data, cut = heard(link, data)
                    target.sendall(data)
                if cut and data:
                    link.answered.wait(_ANSWER_WITHIN_S)
            except OSError:
                cut = True
            link.end(cut=cut)
            with self._lock:
                self._links.discard(link)

        for work in (receive, send):
            threading.Thread(target=work, daemon=True).start()


class _Link:
    """Both sides of one connection."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.deaf = False
        """Whether the client is told nothing more."""
        self.answered = threading.Event()
        """Whether the server has said something since then."""
        self._lock = threading.Lock()
        self._ended = False

    def end(self, *, cut: bool) -> None:
        """End both sides; `cut`: by RST."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
        for side in (self.client, self.server):
            with contextlib.suppress(OSError):
                if cut:
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                # Wakes the thread that reads it, which closing alone does not.
                side.shutdown(socket.SHUT_RD if cut else socket.SHUT_RDWR)
            side.close()


def _told(link: _Link, data: bytes) -> tuple[bytes, bool]:
    """What of the server's answer goes to the client."""
    if not link.deaf:
        return data, False
    link.answered.set()
    return b"", False


def main(arguments: list[str] | None = None) -> None:
    """Run until ended."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--to", type=int, required=True, help="port on loopback")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="of each direction")
    options = parser.parse_args(arguments)
    with Proxy(options.to, delay_s=options.delay_ms / 1000) as proxy:
        print(proxy.port, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
