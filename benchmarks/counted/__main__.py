"""How many Python functions are called on the event loop? `python -m benchmarks.counted [--write] [--names]`.

A gateway serves inside this process; its client and its upstream are plain sockets on threads of their own, whose calls
are not counted. Between two requests the loop is left to finish what it still does of the first. The figure of a way is the
median of a hundred requests; of a stream, what a hundred more chunks add, each sent when the one before was read.

Exits with 1 where a figure is more than 2 % above that of `figures.json`, which `--write` writes anew. `--names` tells which
functions a request calls, the most often called first.
"""

from __future__ import annotations

import asyncio
import json
import socket
import statistics
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import uvloop

from benchmarks.options import options, write
from benchmarks.stalls.upstream import completion
from benchmarks.tables import markdown
from gateway.server import ServerLimits, serve
from understudy.build import Gateway
from understudy.processes.listening import bind
from understudy.settings.file import parse_config
from understudy.settings.knobs import knobs_of

FIGURES = Path(__file__).parent / "figures.json"
MORE = 1.02
REQUESTS, WARM_UP = 101, 20
FEW, MANY = 10, 110
"""Chunks of the streams that are compared."""
_WAIT_S, _PAUSE_S = 60.0, 0.05
_ANSWER = completion("Yes.")
_CHUNK = b'{"id":"1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{%b},"finish_reason":%b}]}'
_EVENT = b"data: %b\n\n" % (_CHUNK % (b'"content":"yes "', b"null"))
_LAST = b"data: %b\n\ndata: [DONE]\n\n" % (_CHUNK % (b"", b'"stop"'))


class Upstream:
    """Answers a chat with one completion; one that streams with as many events as `max_tokens` says, each when the client
    has read the one before."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.read = threading.Semaphore(0)
        self.asked = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no further connection."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            self._answered(connection)

    def _answered(self, connection: socket.socket) -> None:
        while (message := received(connection)) is not None:
            self.asked += 1
            said = json.loads(message.partition(b"\r\n\r\n")[2] or b"{}")
            if not said.get("stream"):
                connection.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                    % (len(_ANSWER), _ANSWER)
                )
                continue
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            connection.sendall(head + chunked(_EVENT))
            for _ in range(said["max_tokens"] - 1):
                self.read.acquire()
                connection.sendall(chunked(_EVENT))
            self.read.acquire()
            connection.sendall(chunked(_LAST) + b"0\r\n\r\n")


def chunked(data: bytes) -> bytes:
    """One chunk of a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def received(connection: socket.socket) -> bytes | None:
    """The next message with a Content-Length; None if the connection was closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


class Counting:
    """Counts the calls of Python functions on the thread it is installed in."""

    def __init__(self, *, names: bool) -> None:
        self.calls = 0
        self.names: Counter[str] | None = Counter() if names else None

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self.calls += 1
            if self.names is not None:
                code = frame.f_code
                self.names[f"{Path(code.co_filename).name}:{code.co_qualname}"] += 1


class Client:
    """Asks a gateway on one connection, and knows what its loop did meanwhile."""

    def __init__(
        self, port: int, upstream: Upstream, loop: asyncio.AbstractEventLoop, counting: Counting
    ) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._upstream, self._loop, self._counting = upstream, loop, counting

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def chat(self, content: str) -> int:
        """Calls for one request."""
        return self._counted(lambda: self._chat(content))

    def stream(self, events: int) -> int:
        """Calls for one stream of so many events."""
        return self._counted(lambda: self._stream(events))

    def _counted(self, ask: Callable[[], None]) -> int:
        self._rested()
        before = self._counting.calls
        ask()
        self._rested()
        return self._counting.calls - before

    def _chat(self, content: str) -> None:
        self._send({"model": "m", "temperature": 0, "messages": [{"role": "user", "content": content}]})
        answer = received(self._connection)
        assert answer is not None and answer.startswith(b"HTTP/1.1 200"), answer

    def _stream(self, events: int) -> None:
        said = [{"role": "user", "content": "?"}]
        self._send({"model": "m", "stream": True, "max_tokens": events, "messages": said})
        data, read = b"", 0
        while not data.endswith(b"0\r\n\r\n"):
            data += self._connection.recv(65536)
            while read < data.count(_EVENT):
                read += 1
                self._upstream.read.release()
        assert read == events

    def _send(self, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer sk-1\r\nUser-Agent: counted\r\n"
            f"Accept: application/json\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        self._connection.sendall(head.encode() + data)

    def _rested(self) -> None:
        """Wait until the loop has nothing more to do of what was asked."""
        for _ in range(3):
            turned = threading.Event()
            self._loop.call_soon_threadsafe(turned.set)
            assert turned.wait(_WAIT_S)


@contextmanager
def gateway(config: dict[str, Any], counting: Counting) -> Iterator[tuple[int, asyncio.AbstractEventLoop]]:
    """A gateway on a thread of its own, whose calls are counted; its port and its loop."""
    ready = threading.Event()
    made: list[Any] = []

    async def serving(sock: socket.socket) -> None:
        stop = asyncio.Event()
        settings = parse_config({"log": {"requests": False}, "health": {"every_s": None}, **config})
        built = Gateway(settings)
        made[:] = [asyncio.get_running_loop(), stop]
        try:
            async with asyncio.TaskGroup() as tasks:
                listening = asyncio.Event()
                limits = knobs_of(ServerLimits, settings.listen, settings.listen.advanced)
                tasks.create_task(
                    serve(built.handle, limits, sock=sock, stop=stop, listening=listening.set), name="serve"
                )
                await listening.wait()
                built.start()
                for _ in range(round(_WAIT_S / _PAUSE_S)):
                    if not built.problems():
                        break
                    await asyncio.sleep(_PAUSE_S)
                sys.setprofile(counting)
                ready.set()
                await stop.wait()
                sys.setprofile(None)
        finally:
            await built.aclose()

    with bind("127.0.0.1", 0) as sock:
        thread = threading.Thread(target=lambda: uvloop.run(serving(sock)))
        thread.start()
        assert ready.wait(2 * _WAIT_S), "the gateway did not come up"
        loop, stop = made
        try:
            yield sock.getsockname()[1], loop
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(_WAIT_S)


def ways(upstream: Upstream, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Configurations by the name of what is counted."""
    base = f"http://127.0.0.1:{upstream.port}/v1"
    served = {
        "engines": {"one": {"base_url": base, "api_key": "none"}},
        "models": {"m": {"engines": ["one"], "policy": "fixed", "proof": "off"}},
    }
    yield "passing through", {"upstream": {"base_url": base}}
    yield "a served model", served
    memory = {"data_dir": str(folder / "hit"), "anonymous": True, "examples": {"enabled": False}}
    yield "an exact hit", served | {"memory": memory}


def measured(*, names: bool = False) -> tuple[dict[str, float], dict[str, Counter[str]]]:
    """The figures by name; and the functions called in a way, with how often, if `names`."""
    figures, called = dict[str, float](), dict[str, Counter[str]]()
    with tempfile.TemporaryDirectory() as folder, closing(Upstream()) as upstream:
        for name, config in ways(upstream, Path(folder)):
            counting = Counting(names=names)
            with (
                gateway(config, counting) as (port, loop),
                closing(Client(port, upstream, loop, counting)) as client,
            ):
                for _ in range(WARM_UP):
                    client.chat("Warm?")
                asked = upstream.asked
                if counting.names is not None:
                    counting.names.clear()
                figures[name] = statistics.median(client.chat("Warm?") for _ in range(REQUESTS))
                if counting.names is not None:
                    called[name] = Counter(
                        {one: n // REQUESTS for one, n in counting.names.items() if n >= REQUESTS}
                    )
                hits = REQUESTS - (upstream.asked - asked)
                assert hits == (REQUESTS if name == "an exact hit" else 0), hits
                if name == "an exact hit":
                    continue
                client.stream(FEW)
                if counting.names is not None:
                    counting.names.clear()
                few, many = (
                    statistics.median(client.stream(events) for _ in range(5)) for events in (FEW, MANY)
                )
                figures[f"{name}: a chunk"] = round((many - few) / (MANY - FEW), 2)
                if counting.names is not None:
                    chunks = 5 * (FEW + MANY)
                    called[f"{name}: a chunk"] = Counter(
                        {one: n // chunks for one, n in counting.names.items() if n >= chunks}
                    )
    return figures, called


def risen(figures: dict[str, float], before: dict[str, float]) -> list[str]:
    """Names of figures that are more than 2 % above those before, or that nothing stands against."""
    return [name for name, calls in figures.items() if calls > MORE * before.get(name, 0)]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--write", action="store_true", help=f"the figures become those of {FIGURES.name}")
    parser.add_argument(
        "--names", action="store_true", help="also tell which functions are called, and how often"
    )
    given = parser.parse_args()
    figures, called = measured(names=given.names)
    before = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for name, functions in called.items():
        print(f"\n{name}")
        for function, often in functions.most_common():
            print(f"{often:5}  {function}")
    rows = [(name, before.get(name, ""), calls) for name, calls in figures.items()]
    print(markdown(("calls of Python functions on the event loop", "committed", "now"), rows))
    write(figures, given.json)
    if given.write:
        FIGURES.write_text(json.dumps(figures, indent=2) + "\n")
    elif worse := risen(figures, before):
        sys.exit(f"More than 2 % above {FIGURES.name}: {', '.join(worse)}")


if __name__ == "__main__":
    main()
