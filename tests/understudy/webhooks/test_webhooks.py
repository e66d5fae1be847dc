"""Deliveries over real sockets: signed, once per crossing, retried; receivers that fail, hang or redirect hold nobody up."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from standardwebhooks.webhooks import Webhook

from store import Store
from store.jobs.webhooks import Crossing, Message
from tests.aiohttp_server import aiohttp_server
from tests.patience import PATIENCE_S, until
from understudy.webhooks.shapes import Shape
from understudy.webhooks.webhooks import Endpoint, WebhookMetrics, Webhooks

SECRET = "whsec_" + "c2VjcmV0" * 6
ALL = frozenset({"engine.down"})


class Receivers:
    """By path: what each says, and what it was sent."""

    def __init__(self) -> None:
        self.got: defaultdict[str, list[tuple[dict[str, str], str]]] = defaultdict(list)
        self.says: dict[str, list[int]] = {}
        self.url = ""
        self.open = asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.got[request.path].append((dict(request.headers), (await request.read()).decode()))
        if request.path == "/hangs":
            await self.open.wait()
        if request.path == "/redirects":
            return web.Response(status=302, headers={"Location": self.url + "/elsewhere"})
        says = self.says.get(request.path, [])
        return web.Response(status=says.pop(0) if says else 204, body=b"x" * 100_000)


@asynccontextmanager
async def receivers() -> AsyncIterator[Receivers]:
    made = Receivers()
    async with aiohttp_server(made.handle) as origin:
        made.url = origin
        yield made
        made.open.set()


def down(name: str = "engine:a") -> Crossing:
    body = json.dumps(
        {"type": "engine.down", "timestamp": "2027-01-01T00:00:00+00:00", "data": {"engine": "a"}}
    )
    return Crossing(name, "down", "up", "engine.down", body)


@asynccontextmanager
async def running(
    store: Store,
    urls: list[str],
    look: Callable[[float], list[Crossing]],
    retry_after_s: tuple[float, ...] = (0.0, 0.0),
) -> AsyncIterator[Webhooks]:
    endpoints = [Endpoint(url, SECRET, ALL) for url in urls]
    async with delivering(store, endpoints, look, retry_after_s) as made:
        yield made


@asynccontextmanager
async def delivering(
    store: Store,
    endpoints: list[Endpoint],
    look: Callable[[float], list[Crossing]],
    retry_after_s: tuple[float, ...] = (0.0, 0.0),
) -> AsyncIterator[Webhooks]:
    made = Webhooks(
        store.jobs.webhooks,
        store.jobs.leases.lease("webhooks"),
        endpoints,
        look,
        WebhookMetrics(CollectorRegistry()),
        every_s=0.02,
        timeout_s=30.0,
        retry_after_s=retry_after_s,
    )
    made.start()
    try:
        yield made
    finally:
        await made.aclose()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path)


async def test_a_message_is_signed_posted_once_and_says_nothing_secret(store: Store) -> None:
    async with receivers() as there, running(store, [there.url + "/fine?token=x"], lambda _: [down()]):
        await until(
            lambda: (
                store.jobs.webhooks.recent() != [] and store.jobs.webhooks.recent()[0].state == "delivered"
            ),
            "delivered",
        )
        ((headers, body),) = there.got["/fine"]
        assert Webhook(SECRET).verify(body, headers)["data"] == {"engine": "a"}
        assert SECRET[6:] not in body and "token" not in body
    # Another process, later, with the same look at things.
    async with receivers() as there, running(store, [there.url + "/fine"], lambda _: [down()]):
        await asyncio.sleep(0.2)
        assert there.got == {}


async def test_receivers_read_their_own_shapes(store: Store) -> None:
    shapes: tuple[Shape, ...] = ("json", "slack", "teams", "pagerduty")
    async with receivers() as there:
        there.says = {"/slack": [200], "/teams": [202], "/pagerduty": [202]}
        endpoints = [Endpoint(f"{there.url}/{shape}", "r0uting", ALL, shape) for shape in shapes]
        async with delivering(store, endpoints, lambda _: [down()]):
            await until(lambda: all(there.got["/" + shape] for shape in shapes), "each is told")
        told = {shape: json.loads(there.got["/" + shape][0][1]) for shape in shapes}
        assert not any("webhook-signature" in there.got["/" + shape][0][0] for shape in shapes)
    assert told["json"]["type"] == "engine.down"
    assert told["slack"]["text"].startswith("*Engine a is down*")
    assert told["teams"]["attachments"][0]["content"]["body"][0]["text"] == "Engine a is down"
    assert told["pagerduty"]["routing_key"] == "r0uting"
    assert "r0uting" not in json.dumps([told[shape] for shape in ("json", "slack", "teams")])


async def test_a_look_that_began_before_a_post_ended_posts_nothing_twice(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the look read as due was delivered before it could say so."""
    outbox, read = store.jobs.webhooks, store.jobs.webhooks.due

    def late(now_s: float) -> list[Message]:
        found = read(now_s)
        deadline = time.monotonic() + PATIENCE_S
        while (
            found and there.got["/fine"] and outbox.recent()[0].state == "due" and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        return found

    monkeypatch.setattr(outbox, "due", late)
    async with receivers() as there, running(store, [there.url + "/fine"], lambda _: [down()]):
        await until(lambda: outbox.recent() != [] and outbox.recent()[0].state == "delivered", "delivered")
        await asyncio.sleep(0.2)
        assert len(there.got["/fine"]) == 1


async def test_what_fails_is_tried_again_with_the_same_id_and_given_up_in_the_end(store: Store) -> None:
    async with receivers() as there:
        there.says = {"/fails": [500, 429, 503], "/recovers": [500], "/gone": [410]}
        urls = [there.url + path for path in ("/fails", "/recovers", "/gone", "/redirects")]
        async with running(store, urls, lambda _: [down()]):
            outbox = store.jobs.webhooks
            await until(
                lambda: len(outbox.recent()) == 4 and not any(m.state == "due" for m in outbox.recent()),
                "all ended",
            )
        by_url = {Endpoint(url, SECRET, ALL).id: url.removeprefix(there.url) for url in urls}
        ended = {by_url[one.endpoint]: (one.state, one.tries, one.result) for one in outbox.recent()}
        assert ended == {
            "/fails": ("given_up", 3, "503"),
            "/recovers": ("delivered", 2, "204"),
            "/gone": ("given_up", 1, "410"),
            "/redirects": ("given_up", 3, "302"),
        }
        assert there.got["/elsewhere"] == [], "redirects are not followed"
        assert len({headers["webhook-id"] for headers, _ in there.got["/fails"]}) == 1


async def test_a_receiver_that_hangs_holds_up_nobody(store: Store) -> None:
    names = iter(f"engine:{n}" for n in range(10_000))
    looks = [[down(next(names)) for _ in range(8)]]

    def look(_: float) -> list[Crossing]:
        return looks.pop() if looks else []

    async with receivers() as there, running(store, [there.url + "/hangs", there.url + "/fine"], look):
        await until(lambda: len(there.got["/fine"]) == 8, "the other receiver has all of its messages")
        assert 1 <= len(there.got["/hangs"]) <= 4


@pytest.mark.slow
async def test_of_two_processes_one_delivers_and_the_other_takes_over(store: Store, tmp_path: Path) -> None:
    crossings = [down("engine:1")]
    async with receivers() as there:
        other = Store.open(tmp_path)
        urls = [there.url + "/fine"]
        async with running(other, urls, lambda _: crossings):
            async with running(store, urls, lambda _: crossings):
                await until(lambda: len(there.got["/fine"]) == 1, "told")
            crossings.append(down("engine:2"))
            await until(lambda: len(there.got["/fine"]) == 2, "told by the other one")
            await asyncio.sleep(0.1)
        assert (
            len({headers["webhook-id"] for headers, _ in there.got["/fine"]}) == len(there.got["/fine"]) == 2
        )
        other.close()


async def test_a_look_that_fails_ends_nothing(store: Store) -> None:
    looks: list[Exception | list[Crossing]] = [OSError(28, "disk full"), [down()]]

    def look(_: float) -> list[Crossing]:
        found = looks.pop(0) if looks else []
        if isinstance(found, Exception):
            raise found
        return found

    async with receivers() as there, running(store, [there.url + "/fine"], look):
        await until(lambda: len(there.got["/fine"]) == 1, "told")
