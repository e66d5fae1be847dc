"""Tenants who ask all but the same, in any order, across restarts, new embeddings, imports and deletions: nothing crosses.

Every answer names the tenant it was made for, so whatever reaches another one shows.
"""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from pathlib import Path

import numpy as np
import pytest
from aiohttp import web
from click.testing import CliRunner
from hypothesis import strategies as st

from router.embedding.embedder import Embedder
from store import Store
from store.admission.cutting import EMBEDDED_CHARACTERS
from store.examples.tenant_index import new_usearch_index
from store.people.secret import tenant_id
from tests.flow.histories import property_of
from tests.flow.line import MODELS, Asked, Got, Line, completion
from tests.flow.test_line_demonstrations import ask, give
from tests.flow.test_line_examples import Stage, stage
from tests.store.rows import new_example
from understudy.__main__ import main

TENANTS = 3
QUESTIONS = (
    "How do I list all files in a directory on Linux, including hidden ones?",
    "How do I list all files in a directory on Linux, including the hidden ones?",
    "how do i list all files in a directory on linux, including hidden ones",
    "How do I list all files in a directory on Linux, excluding hidden ones?",
    "What is the capital of the invented country of Ruritania?",
)
MARK = re.compile(r"mark-[a-z0-9]+-[0-9]+")
_Step = tuple[str, int, int]
ONE: st.SearchStrategy[_Step] = st.tuples(
    st.sampled_from(["ask"] * 6 + ["give"] * 3 + ["import", "delete_one", "delete_user"]),
    st.integers(0, TENANTS - 1),
    st.integers(0, len(QUESTIONS) - 1),
)
ALL: st.SearchStrategy[_Step] = st.tuples(
    st.sampled_from(["restart", "reembed", "forget"]), st.integers(0, TENANTS - 1), st.just(0)
)
HISTORIES = st.lists(st.one_of(ONE, ONE, ONE, ONE, ONE, ALL), min_size=6, max_size=24)


class World:
    """One data folder through many lives of the gateway; each history brings tenants of its own."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self._folder = folder
        self._open = AsyncExitStack()
        self._here: Stage | None = None
        self._characters = EMBEDDED_CHARACTERS
        self._patched = pytest.MonkeyPatch()
        self._histories = 0
        self._imports = 0
        self.offloaded = 0
        self.hits = 0

    @property
    def here(self) -> Stage:
        assert self._here is not None
        return self._here

    async def start(self) -> None:
        memory = {"exact": {"enabled": True}}
        self._patched.setattr("understudy.memory.open_embedder", self._embedder)
        self._here = await self._open.enter_async_context(stage(self.data, memory=memory))
        self._here.small.script = self._here.large.script = _answers_with_the_askers_mark

    async def stop(self) -> None:
        self._upstreams_heard_only_their_askers_own()
        await self._open.aclose()
        self._patched.undo()
        self._here = None
        self._snapshots_hold_only_their_tenants_own()

    def _embedder(self, settings: object, folder: Path) -> Embedder:
        """Another version of the same embeddings whenever the number of characters is another."""
        return Embedder.open("package", MODELS, deadline_ms=10_000, max_characters=self._characters)

    async def live(self, history: list[_Step]) -> None:
        """One history of new tenants among those of all earlier ones."""
        self._histories += 1
        names = [f"h{self._histories}t{i}" for i in range(TENANTS)]
        for what, tenant, question in history:
            await self._step(what, names[tenant], QUESTIONS[question])
        for name in names:
            await self._ask(name, QUESTIONS[0])
        await self._nothing_crossed(names)

    async def _step(self, what: str, name: str, question: str) -> None:
        if what == "ask":
            await self._ask(name, question)
        elif what == "give":
            answer = f"Given as mark-{name}-0."
            assert (await give(self.gate, question, answer, headers=_key(name), user="ann")).status == 201
        elif what == "import":
            await self._import(name, question)
        elif what == "delete_one":
            for id in (await self._listed(name))[:1]:
                got = await ask(self.gate, "DELETE", f"/examples/{id}", _key(name))
                assert got.status == 200 and id not in await self._listed(name)
        elif what == "delete_user":
            assert (await ask(self.gate, "DELETE", "/examples?user=ann", _key(name))).status == 200
        elif what == "forget":
            await self._run(
                "forget", "--data", self.data, "--tenant", f"id:{self._id(name)}", "--keep-keys", "--yes"
            )
            await self.gate.settled()
            assert await self._listed(name) == []
        else:
            if what == "reembed":
                self._characters = 2900 - self._characters
            await self.stop()
            await self.start()

    @property
    def gate(self) -> Line:
        return self.here.gate

    async def _ask(self, name: str, question: str) -> None:
        got = await self.gate.chat(question, _key(name))
        assert got.status == 200
        _only_own(name, got)
        self.offloaded += got.headers["x-understudy-examples"] not in ("0", "")
        self.hits += got.hit

    async def _import(self, name: str, question: str) -> None:
        self._imports += 1
        answer = {"role": "assistant", "content": f"Imported as mark-{name}-{self._imports}."}
        line = {"messages": [{"role": "user", "content": question}, answer]}
        file = self._folder / "import.jsonl"
        file.write_text(json.dumps(line))
        await self._run("import", file, "--data", self.data, "--tenant", f"id:{self._id(name)}")

    async def _run(self, *arguments: object) -> None:
        done = await asyncio.to_thread(CliRunner().invoke, main, [str(a) for a in arguments])
        assert done.exit_code == 0, done.output

    async def _listed(self, name: str) -> list[str]:
        got = await ask(self.gate, "GET", "/examples?limit=100", _key(name))
        _only_own(name, got)
        return [e["id"] for e in got.json["data"]]

    def _id(self, name: str) -> str:
        memory = self.gate.gateway.memory
        assert memory is not None
        return tenant_id(memory.store.secret, f"sk-{name}")

    async def _nothing_crossed(self, names: list[str]) -> None:
        self._upstreams_heard_only_their_askers_own()
        listed = {name: set(await self._listed(name)) for name in names}
        for name in names:
            others = set().union(*(listed[other] for other in names if other != name))
            for id in sorted(others - listed[name])[:3]:
                assert (await ask(self.gate, "GET", f"/examples/{id}", _key(name))).status == 404
                assert (await ask(self.gate, "DELETE", f"/examples/{id}", _key(name))).status == 404
        self._rows_are_their_tenants(names)
        exposed = self.gate.gateway.metrics.exposition().decode()
        assert not MARK.search(exposed) and not [n for n in names if n in exposed or self._id(n) in exposed]

    def _rows_are_their_tenants(self, names: list[str]) -> None:
        memory = self.gate.gateway.memory
        assert memory is not None and memory.embedder is not None and memory.store.indexes is not None
        query = memory.embedder.embed_blocking(QUESTIONS[0])
        with closing(sqlite3.connect(self.data / "understudy.db")) as db:
            owner = dict(db.execute("SELECT id, tenant FROM examples"))
            for name in names:
                tenant = self._id(name)
                own = {id for id, of in owner.items() if of == tenant}
                # The index knows ids only; what it gives that is no longer a row is nobody's.
                near = {id for id, _ in memory.store.indexes.nearest(tenant, query, 1000)}
                assert near & set(owner) <= own
                assert {e.id for e in memory.store.examples.by_ids(tenant, sorted(owner))} <= own
                assert memory.store.examples.totals(tenant).examples == len(own)
                texts = db.execute(
                    "SELECT question, answer, embedded_text FROM examples WHERE tenant = ?", (tenant,)
                )
                bodies = db.execute(
                    "SELECT CAST(body AS TEXT) FROM exact_answers WHERE tenant = ?", (tenant,)
                )
                for text in (t for row in [*texts, *bodies] for t in row):
                    assert {m.split("-")[1] for m in MARK.findall(text)} <= {name}
                for used, *row in db.execute(
                    "SELECT example_ids, * FROM requests WHERE tenant = ?", (tenant,)
                ):
                    assert not {owner[id] for id in json.loads(used) if id in owner} - {tenant}
                    assert not MARK.search(" ".join(map(str, row))), "the log holds no content"

    def _upstreams_heard_only_their_askers_own(self) -> None:
        for asked in (*self.here.small.asked, *self.here.large.asked):
            name = asked.headers["Authorization"].removeprefix("Bearer sk-")
            assert {m.split("-")[1] for m in MARK.findall(asked.body.decode())} <= {name}

    def _snapshots_hold_only_their_tenants_own(self) -> None:
        with closing(sqlite3.connect(self.data / "understudy.db")) as db:
            owner = dict(db.execute("SELECT id, tenant FROM examples"))
        for file in (self.data / "index").glob("*.json"):
            seal = json.loads(file.read_text())
            index = new_usearch_index(seal["dimensions"])
            index.load(str(self.data / "index" / seal["file"]))
            assert {owner.get(int(id), file.stem) for id in index.keys[:]} <= {file.stem}


async def _answers_with_the_askers_mark(request: web.Request, asked: Asked) -> web.StreamResponse:
    name = asked.headers["Authorization"].removeprefix("Bearer sk-")
    return web.json_response(completion(f"Made for mark-{name}-1."))


def _key(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer sk-{name}"}


def _only_own(name: str, got: Got) -> None:
    assert {m.split("-")[1] for m in MARK.findall(got.body.decode())} <= {name}
    assert not [v for v in got.headers.values() if MARK.search(v)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, asyncio.Runner]]:
    made = World(tmp_path_factory.mktemp("isolation"))
    with asyncio.Runner() as runner:
        runner.run(made.start())
        try:
            yield made, runner
        finally:
            runner.run(made.stop())


test_nothing_crosses_tenants = pytest.mark.timeout(300)(property_of(HISTORIES, 8))
test_nothing_crosses_tenants_in_many_histories = pytest.mark.slow(
    pytest.mark.timeout(1800)(property_of(HISTORIES, 60))
)


def test_the_histories_did_reuse_what_was_their_own(world: tuple[World, asyncio.Runner]) -> None:
    """Otherwise nothing crossing would mean nothing."""
    made, runner = world
    runner.run(made.live([("ask", 0, 0), ("ask", 0, 1), ("ask", 0, 0), ("restart", 0, 0), ("ask", 0, 2)]))
    assert made.offloaded >= 2 and made.hits >= 1


def test_many_tenants_with_one_and_the_same_vector_get_their_own_example_only(tmp_path: Path) -> None:
    store = Store.open(tmp_path, dimensions=8, embedding_version="v")
    try:
        vector = np.eye(1, 8, dtype=np.float32)[0]
        tenants = [f"{i:032x}" for i in range(200)]
        ids = {
            t: store.examples.add(new_example(1, tenant=t, vector=vector, embedding_version="v"))
            .result(30)
            .id
            for t in tenants
        }
        assert store.follower is not None and store.indexes is not None
        assert store.follower.wait_for(store.examples.last_seq(), 30)
        for tenant in tenants:
            assert [id for id, _ in store.indexes.nearest(tenant, vector, 1000)] == [ids[tenant]]
            assert [e.id for e in store.examples.by_ids(tenant, list(ids.values()))] == [ids[tenant]]
    finally:
        store.close()
