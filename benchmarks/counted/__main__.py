"""How many Python functions does a request call, on the event loop and on all threads? `python -m benchmarks.counted`.

A gateway serves inside this process; its client and its upstream are plain sockets on threads of their own, whose calls
are not counted. Between two requests the gateway is left to finish what it still does of the first: until all is committed.
The figure of a way is the least of a hundred requests, since chores that go by time (bookings, looks at the load) fall into
some of them; of a stream, what a hundred more chunks add on the event loop, each sent when the one before was read.

Exits with 1 where a figure is more than 2 % above that of `figures.json`, which `--write` writes anew. `--names` tells which
functions a request calls, the most often called first.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import uvloop

from benchmarks.options import options, write
from benchmarks.recorded import ROOT
from benchmarks.stalls.upstream import completion
from benchmarks.tables import markdown, write_between
from gateway.server import ServerLimits, serve
from store import Store
from store.people.limits import Budget, Limits, Terms
from understudy.build import Gateway
from understudy.processes.listening import bind
from understudy.settings.file import parse_config
from understudy.settings.knobs import knobs_of

FIGURES = Path(__file__).parent / "figures.json"
PAGE = ROOT / "docs" / "explanation" / "performance.md"
MORE = 1.02
REQUESTS, WARM_UP = 101, 20
SECRET = "us-counted-0123456789abcdef0123456789"
FEW, MANY = 10, 110
"""Chunks of the streams that are compared."""
_WAIT_S, _PAUSE_S = 60.0, 0.002
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
        # Not the gateway's: what counts threads that are started now does not count this one.
        sys.setprofile(None)
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

    def forget(self) -> None:
        """Begin anew to count names."""
        if self.names is not None:
            self.names.clear()

    def each(self, times: int) -> Counter[str]:
        """What was called once or more in each of so many times, and how often."""
        return Counter({name: n // times for name, n in (self.names or {}).items() if n >= times})


@dataclass(frozen=True)
class Serving:
    """A gateway that serves, and what is counted of it."""

    port: int
    loop: asyncio.AbstractEventLoop
    built: Gateway
    on_loop: Counting
    beside: Counting
    """On all its other threads."""


class Client:
    """Asks a gateway on one connection, and knows what it did meanwhile."""

    def __init__(self, gateway: Serving, upstream: Upstream) -> None:
        self._connection = socket.create_connection(("127.0.0.1", gateway.port))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._upstream, self._gateway = upstream, gateway

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def chat(self, content: str, head: bytes = b"") -> tuple[int, int]:
        """Calls for one request: on the event loop, and on all threads. `head`: what the head of its answer has to hold."""
        return self._counted(lambda: self._chat(content, head))

    def stream(self, events: int) -> int:
        """Calls on the event loop for one stream of so many events."""
        return self._counted(lambda: self._stream(events))[0]

    def _counted(self, ask: Callable[[], None]) -> tuple[int, int]:
        gateway = self._gateway
        self._rested()
        on_loop, beside = gateway.on_loop.calls, gateway.beside.calls
        ask()
        self._rested()
        on_loop, beside = gateway.on_loop.calls - on_loop, gateway.beside.calls - beside
        return on_loop, on_loop + beside

    def _chat(self, content: str, head: bytes) -> None:
        self._send({"model": "m", "temperature": 0, "messages": [{"role": "user", "content": content}]})
        answer = received(self._connection)
        assert answer is not None and answer.startswith(b"HTTP/1.1 200") and head in answer, answer

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
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {SECRET}\r\nUser-Agent: counted\r\n"
            f"Accept: application/json\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        self._connection.sendall(head.encode() + data)

    def _rested(self) -> None:
        """Wait until the gateway has nothing more to do of what was asked."""
        for _ in range(round(_WAIT_S / _PAUSE_S)):
            if self._gateway.built.settled():
                break
            time.sleep(_PAUSE_S)
        for _ in range(3):
            turned = threading.Event()
            self._gateway.loop.call_soon_threadsafe(turned.set)
            assert turned.wait(_WAIT_S)


@contextmanager
def gateway(config: dict[str, Any], *, names: bool = False) -> Iterator[Serving]:
    """A gateway on threads of its own, whose calls are counted."""
    on_loop, beside = Counting(names=names), Counting(names=names)
    ready = threading.Event()
    made: list[Any] = []

    async def serving(sock: socket.socket) -> None:
        stop = asyncio.Event()
        settings = parse_config({"log": {"requests": False}, "health": {"every_s": None}, **config})
        built = Gateway(settings)
        made[:] = [asyncio.get_running_loop(), built, stop]
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
                sys.setprofile(on_loop)
                ready.set()
                await stop.wait()
                sys.setprofile(None)
        finally:
            await built.aclose()

    with bind("127.0.0.1", 0) as sock:
        threading.setprofile(beside)
        thread = threading.Thread(target=lambda: uvloop.run(serving(sock)))
        thread.start()
        assert ready.wait(2 * _WAIT_S), "the gateway did not come up"
        loop, built, stop = made
        try:
            yield Serving(sock.getsockname()[1], loop, built, on_loop, beside)
        finally:
            threading.setprofile(None)
            loop.call_soon_threadsafe(stop.set)
            thread.join(_WAIT_S)


class Way(NamedTuple):
    """A way for a request to go, and what is asked to warm it up."""

    name: str
    config: dict[str, Any]
    warm_up: Sequence[str] = ("Warm?",) * WARM_UP
    head: bytes = b""
    """What the head of each answer that is counted has to hold."""
    streams: bool = True
    steady: bool = True
    """Whether other threads call the same each time: those that learn go by time."""


def ways(upstream: Upstream, folder: Path) -> Iterator[Way]:
    """All that are counted."""
    base = f"http://127.0.0.1:{upstream.port}/v1"
    served = {
        "engines": {"one": {"base_url": base, "api_key": "none"}},
        "models": {"m": {"engines": ["one"], "policy": "fixed", "proof": "off"}},
    }
    yield Way("passing through", {"upstream": {"base_url": base}})
    yield Way("a served model", served)
    memory = {"data_dir": str(folder / "hit"), "anonymous": True, "examples": {"enabled": False}}
    yield Way("an exact hit", served | {"memory": memory}, head=b"understudy; hit", streams=False)
    yield Way("a governed request", _governed(base, folder / "governed"))
    questions = [f"What is the best way to paint house number {n} in the spring?" for n in range(WARM_UP)]
    small = b"x-understudy-engine: small"
    yield Way("the whole line", _whole(base, folder / "whole"), questions, small, False, False)


def _governed(base: str, data: Path) -> dict[str, Any]:
    """What passes through under one of the gateway's keys, which has a budget."""
    price = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 4.0}
    store = Store.open(data)
    store.keys.create(
        "one", "one", secret_text=SECRET, terms=Terms(limits=Limits(budgets=(Budget(1000, "total"),)))
    )
    store.close()
    return {
        "upstream": {"base_url": base, "api_key": "none", "prices": {"m": price}},
        "memory": {"data_dir": str(data), "examples": {"enabled": False}, "exact": {"enabled": False}},
    }


def _whole(base: str, data: Path) -> dict[str, Any]:
    """Retrieval, scoring and decision: every text was embedded before, and the small engine answers with examples."""
    return {
        "engines": {name: {"base_url": base, "api_key": "none"} for name in ("small", "large")},
        "models": {"m": {"engines": ["small", "large"], "policy": "few_shot", "proof": "off"}},
        "memory": {"data_dir": str(data), "anonymous": True, "exact": {"enabled": False}},
    }


def measured(*, names: bool = False) -> tuple[dict[str, float], dict[str, Counter[str]]]:
    """The figures by name; and the functions called in a way, with how often, if `names`."""
    figures, called = dict[str, float](), dict[str, Counter[str]]()
    with tempfile.TemporaryDirectory() as folder, closing(Upstream()) as upstream:
        for way in ways(upstream, Path(folder)):
            with (
                gateway(way.config, names=names) as serving,
                closing(Client(serving, upstream)) as client,
            ):
                for content in way.warm_up:
                    client.chat(content)
                serving.on_loop.forget()
                serving.beside.forget()
                counted = [client.chat(way.warm_up[-1], way.head) for _ in range(REQUESTS)]
                on_loop, on_all = zip(*counted, strict=True)
                figures[way.name] = min(on_loop)
                if way.steady:
                    figures[f"{way.name}, all threads"] = min(on_all)
                called[way.name] = serving.on_loop.each(REQUESTS)
                called[f"{way.name}, other threads"] = serving.beside.each(REQUESTS)
                if not way.streams:
                    continue
                client.stream(FEW)
                serving.on_loop.forget()
                few, many = (min(client.stream(events) for _ in range(5)) for events in (FEW, MANY))
                figures[f"{way.name}: a chunk"] = round((many - few) / (MANY - FEW), 2)
                called[f"{way.name}: a chunk"] = serving.on_loop.each(5 * (FEW + MANY))
    return figures, called


def risen(figures: dict[str, float], before: dict[str, float]) -> list[str]:
    """Names of figures that are more than 2 % above those before, or that nothing stands against."""
    return [name for name, calls in figures.items() if calls > MORE * before.get(name, 0)]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument(
        "--write", action="store_true", help=f"the figures become those of {FIGURES.name} and {PAGE.name}"
    )
    parser.add_argument(
        "--names", action="store_true", help="also tell which functions are called, and how often"
    )
    given = parser.parse_args()
    figures, called = measured(names=given.names)
    before = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for name, functions in called.items() if given.names else ():
        print(f"\n{name}")
        for function, often in functions.most_common():
            print(f"{often:5}  {function}")
    rows = [(name, before.get(name, ""), calls) for name, calls in figures.items()]
    print(markdown(("calls of Python functions, on the event loop where not said", "committed", "now"), rows))
    write(figures, given.json)
    if given.write:
        FIGURES.write_text(json.dumps(figures, indent=2) + "\n")
        write_between(
            PAGE, "counted", markdown(("calls of Python functions", "on the event loop"), figures.items())
        )
    elif worse := risen(figures, before):
        sys.exit(f"More than 2 % above {FIGURES.name}: {', '.join(worse)}")


if __name__ == "__main__":
    main()
