"""The same embeddings, asked by several at once, over real sockets; and those that take a while to be kept."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from engines.answers.answer import Body
from tests.flow.line import Asked, Got, Line, Upstream, line
from tests.flow.line import upstream as scripted
from tests.flow.test_line_single_flight import COLLAPSED, count, under_way
from tests.flow.upstream import Upstream as Raw
from tests.patience import until

PATH = "/embeddings"
ASKED = {"model": "e", "input": "text"}
EMBEDDED = {"object": "list", "data": [{"embedding": [0.5, 0.25]}]}
LONG = {"object": "list", "data": [{"embedding": [i / 7 for i in range(9000)]}]}


class Gated(Upstream):
    """One that answers when the gate is opened; the first so many times with what `answers` says."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.left = 0
        """Answers that the gateway did not wait for."""
        self.answers: list[web.Response] = []
        self.headers: dict[str, str] = {}
        self.embedded: dict[str, Any] = EMBEDDED
        self.script = self._answer

    async def _answer(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        number = len(self.asked)
        await until(lambda: self.gate.is_set() or request.transport is None, "the gate open")
        self.left += not self.gate.is_set()
        if number <= len(self.answers):
            return self.answers[number - 1]
        return web.json_response(self.embedded, headers=self.headers)


@pytest.fixture
async def behind() -> AsyncIterator[Gated]:
    made = Gated()
    async with scripted() as plain:
        # The server of the plain one, with our script.
        plain.script = made._answer
        made.url, made.asked = plain.url, plain.asked
        yield made
        made.gate.set()


@asynccontextmanager
async def gateway(behind: Upstream | Raw, data: Path, **advanced: Any) -> AsyncIterator[Line]:
    memory = {"data_dir": str(data), "advanced": advanced, "examples": {"enabled": False}}
    async with line({"upstream": {"base_url": behind.url}, "memory": memory}) as made:
        yield made


@pytest.fixture
async def gate(behind: Gated, tmp_path: Path) -> AsyncIterator[Line]:
    async with gateway(behind, tmp_path) as made:
        yield made


async def together(
    gate: Line,
    behind: Gated,
    number: int,
    headers: dict[str, str] | None = None,
    asked: dict[str, Any] = ASKED,
) -> list[Got]:
    """What so many of the same request got, all of which were in the gateway before the upstream answered."""
    async with asyncio.TaskGroup() as tasks:
        posts = [tasks.create_task(gate.post(PATH, asked, headers)) for _ in range(number)]
        await under_way(gate, number)
        behind.gate.set()
    return [await post for post in posts]


@pytest.mark.parametrize("embedded", [EMBEDDED, LONG], ids=["short", "long"])
async def test_the_upstream_is_asked_once_for_all_of_them(
    gate: Line, behind: Gated, embedded: dict[str, Any]
) -> None:
    behind.embedded = embedded
    got = await together(gate, behind, 20)
    assert len(behind.asked) == 1
    assert {each.body for each in got} == {json.dumps(embedded).encode()}
    said = sorted(each.headers["Cache-Status"] for each in got)
    assert said == ["understudy; fwd=miss"] + [COLLAPSED] * 19
    assert len({each.headers["x-understudy-decision-id"] for each in got}) == 20
    assert await count(gate, "hit") == 19 and await count(gate, "answered") == 1
    assert (await gate.post(PATH, ASKED)).hit


async def test_each_gets_the_answer_in_an_encoding_that_it_reads(gate: Line, behind: Gated) -> None:
    packed = gzip.compress(json.dumps(EMBEDDED).encode())
    behind.answers = [
        web.Response(body=packed, content_type="application/json", headers={"Content-Encoding": "gzip"})
    ]
    leading = asyncio.ensure_future(gate.post(PATH, ASKED, {"Accept-Encoding": "gzip, br"}))
    await until(lambda: len(behind.asked) == 1, "the upstream asked")
    following = asyncio.ensure_future(gate.post(PATH, ASKED, {"Accept-Encoding": "identity"}))
    await under_way(gate, 2)
    behind.gate.set()
    leader, follower = await leading, await following
    assert gzip.decompress(leader.body) == follower.body and "Content-Encoding" not in follower.headers
    assert len(behind.asked) == 1
    assert behind.asked[0].headers["Accept-Encoding"] == "gzip"


async def test_who_reads_no_gzip_is_sent_none(gate: Line, behind: Gated) -> None:
    behind.gate.set()
    await gate.post(PATH, ASKED, {"Accept-Encoding": "identity"})
    assert behind.asked[0].headers["Accept-Encoding"] == "identity"


async def test_a_leader_that_fails_hands_over_to_one_of_those_who_follow(gate: Line, behind: Gated) -> None:
    behind.answers = [web.json_response({"error": {"message": "no"}}, status=500)]
    got = await together(gate, behind, 10)
    assert len(behind.asked) == 2
    assert sorted(each.status for each in got) == [200] * 9 + [500]


async def test_an_upstream_that_only_fails_fails_everybody(gate: Line, behind: Gated) -> None:
    behind.answers = [web.json_response({"error": {"message": "no"}}, status=500) for _ in range(10)]
    assert [each.status for each in await together(gate, behind, 10)] == [500] * 10


NOT_KEPT = {
    "an error": {"error": {"message": "overloaded"}},
    "no vectors": {"object": "list", "data": []},
}


@pytest.mark.parametrize("embedded", NOT_KEPT.values(), ids=NOT_KEPT)
async def test_an_answer_that_is_none_is_not_shared(
    gate: Line, behind: Gated, embedded: dict[str, Any]
) -> None:
    behind.answers = [web.json_response(embedded)]
    got = await together(gate, behind, 10)
    assert len(behind.asked) == 2
    assert [each.body for each in got].count(json.dumps(EMBEDDED).encode()) == 9


@pytest.mark.parametrize("said", ["private", "no-store", "max-age=0"])
async def test_an_answer_that_its_upstream_keeps_to_one_client_is_not_shared(
    gate: Line, behind: Gated, said: str
) -> None:
    behind.headers = {"Cache-Control": said}
    got = await together(gate, behind, 3)
    assert len(behind.asked) == 3
    assert COLLAPSED not in [each.headers["Cache-Status"] for each in got]


async def test_vectors_of_which_nobody_could_see_a_cut_are_not_shared(tmp_path: Path, upstream: Raw) -> None:
    body = json.dumps(EMBEDDED).encode()
    upstream.says(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + body)
    async with gateway(upstream, tmp_path) as gate, asyncio.TaskGroup() as tasks:
        posts = [tasks.create_task(gate.post(PATH, ASKED)) for _ in range(3)]
    assert [(await post).body for post in posts] == [body] * 3 and len(upstream.calls) == 3


async def test_answers_too_large_to_be_kept_are_waited_for_by_nobody(behind: Gated, tmp_path: Path) -> None:
    """The first answer has begun and never ends: who waited for its end would wait until the upstream gives up."""
    stuck = asyncio.Event()

    async def answer(request: web.Request, asked: Asked) -> web.StreamResponse:
        if len(behind.asked) > 1:
            return web.json_response(LONG)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(json.dumps(LONG).encode())
        await stuck.wait()
        return response

    async with scripted() as slow, gateway(slow, tmp_path, exact_max_entry_kib=1) as gate:
        slow.script, behind.asked = answer, slow.asked
        leading = asyncio.ensure_future(gate.session.post(gate.url + PATH, json=ASKED))
        await until(lambda: len(slow.asked) == 1, "the upstream asked")
        follower = await gate.session.post(gate.url + PATH, json=ASKED)
        assert follower.status == 200 and await follower.json(content_type=None) == LONG
        stuck.set()
        (await leading).close()
        follower.close()


@pytest.mark.parametrize(
    ("headers", "fields"),
    [
        ({"Cache-Control": "no-store"}, {}),
        ({"Cache-Control": "no-cache"}, {}),
        ({}, {"store": False}),
    ],
)
async def test_who_wants_an_answer_of_its_own_gets_one(
    gate: Line, behind: Gated, headers: dict[str, str], fields: dict[str, Any]
) -> None:
    await together(gate, behind, 3, headers, ASKED | fields)
    assert len(behind.asked) == 3


@pytest.mark.parametrize(
    ("one", "other", "bodies"),
    [
        ({"Authorization": "Bearer sk-alice"}, {"Authorization": "Bearer sk-bob"}, [{}, {}]),
        ({"OpenAI-Organization": "one"}, {"OpenAI-Organization": "two"}, [{}, {}]),
        ({}, {}, [{"user": "ann"}, {"user": "ben"}]),
        ({}, {}, [{"encoding_format": "float"}, {"encoding_format": "base64"}]),
    ],
    ids=["credentials", "organisations", "end users", "formats"],
)
async def test_requests_that_are_not_the_same_do_not_wait_for_one_another(
    gate: Line,
    behind: Gated,
    one: dict[str, str],
    other: dict[str, str],
    bodies: list[dict[str, Any]],
) -> None:
    async with asyncio.TaskGroup() as tasks:
        for headers, fields in zip((one, other), bodies, strict=True):
            tasks.create_task(gate.post(PATH, ASKED | fields, headers))
        await until(lambda: len(behind.asked) == 2, "both asked before either is answered")
        behind.gate.set()


async def test_a_leader_that_leaves_goes_on_for_those_who_follow(
    gate: Line, behind: Gated, noticed: asyncio.Event
) -> None:
    leader = asyncio.ensure_future(gate.post(PATH, ASKED))
    await until(lambda: len(behind.asked) == 1, "the upstream asked")
    followers = [asyncio.ensure_future(gate.post(PATH, ASKED)) for _ in range(2)]
    await under_way(gate, 3)
    leader.cancel()
    await noticed.wait()
    behind.gate.set()
    for follower in followers:
        assert (await follower).json == EMBEDDED
    assert len(behind.asked) == 1 and behind.left == 0
    assert (await gate.post(PATH, ASKED)).hit, "and its answer is remembered"


async def test_when_all_have_left_the_upstream_is_left(gate: Line, behind: Gated) -> None:
    posts = []
    for number in range(1, 4):
        posts.append(asyncio.ensure_future(gate.post(PATH, ASKED)))
        await under_way(gate, number)
    await until(lambda: len(behind.asked) == 1, "the upstream asked")
    for post in posts:
        post.cancel()
    await until(lambda: behind.left == 1, "the upstream left")
    await under_way(gate, 0)
    behind.gate.set()
    assert not (await gate.post(PATH, ASKED)).hit


class Held:
    """Holds up the reading of answers on any thread but the event loop's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go_on = threading.Event()
        self.began = threading.Event()
        loops, read = threading.get_ident(), Body.decoded

        def decoded(body: Body) -> bytes:
            if threading.get_ident() != loops:
                self.began.set()
                assert self.go_on.wait(30)
            return read(body)

        monkeypatch.setattr(Body, "decoded", decoded)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(monkeypatch)


async def test_readiness_waits_until_a_large_answer_is_kept(gate: Line, behind: Gated, held: Held) -> None:
    behind.gate.set()
    behind.embedded = LONG
    async with gate.session.post(gate.url + PATH, json=ASKED) as response:
        assert await response.json() == LONG, "its client does not wait for that"
    settled = gate.url.removesuffix("/v1") + "/readyz?settled=1"
    await asyncio.to_thread(held.began.wait, 30)
    assert (await gate.session.get(settled)).status == 503
    held.go_on.set()
    await gate.settled()
    assert (await gate.session.get(settled)).status == 200
    assert (await gate.post(PATH, ASKED)).hit


async def test_who_repeats_a_large_answer_at_once_gets_it_from_memory(
    gate: Line, behind: Gated, held: Held
) -> None:
    behind.gate.set()
    behind.embedded = LONG
    async with gate.session.post(gate.url + PATH, json=ASKED) as response:
        await response.read()
    again = asyncio.ensure_future(gate.post(PATH, ASKED))
    await under_way(gate, 1)
    held.go_on.set()
    assert (await again).hit and len(behind.asked) == 1


async def test_a_large_answer_is_kept_before_the_gateway_ends(
    behind: Gated, tmp_path: Path, held: Held
) -> None:
    behind.gate.set()
    behind.embedded = LONG
    async with gateway(behind, tmp_path) as first:
        async with first.session.post(first.url + PATH, json=ASKED) as response:
            await response.read()
        await asyncio.to_thread(held.began.wait, 30)
        # The gateway ends while the answer is still being read.
        threading.Timer(0.2, held.go_on.set).start()
    async with gateway(behind, tmp_path) as second:
        assert (await second.post(PATH, ASKED)).hit
    assert len(behind.asked) == 1
