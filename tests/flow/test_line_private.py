"""A private tenant over real sockets: nothing that anybody said is ever sent along, shown, or given back by likeness."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gateway.endpoints.examples import PATH
from store import Store
from store.people.secret import tenant_id
from tests.flow.test_line_examples import ALIKE, QUESTION, Stage, stage

ALICE = {"Authorization": "Bearer sk-alice"}
ANSWER = "Use find . -maxdepth 1."


async def test_what_is_said_is_put_aside_and_never_sent_along(tmp_path: Path) -> None:
    async with stage(tmp_path / "data") as open_:
        # Before anything was promised: an example, as for everybody.
        await open_.gate.chat(QUESTION, ALICE)
        store = store_of(open_)
        tenant = tenant_id(store.secret, "sk-alice")
        assert store.examples.count(tenant) == 1
    async with stage(tmp_path / "data", private={"tenants": [f"id:{tenant}"]}) as here:
        gate, store = here.gate, store_of(here)
        assert store.examples.count(tenant) == 0, "what was served before is put aside, too"
        got = await gate.chat(ALIKE, ALICE)
        assert got.headers["x-understudy-engine"] == "large"
        asked = [{"role": "user", "content": QUESTION}]
        given = await gate.post(PATH, {"messages": asked, "answer": ANSWER}, ALICE)
        assert (given.status, given.json) == (202, {"object": "example.put_aside"})
        decision = got.headers["x-understudy-decision-id"]
        correction = {"decision_id": decision, "messages": asked, "correction": "Somebody's own words."}
        corrected = await gate.post("/feedback", correction, ALICE)
        assert corrected.status in (200, 201), corrected.body
        again = await gate.chat(ALIKE + " Please.", ALICE)
        assert again.headers["x-understudy-engine"] == "large"
        assert not here.small.asked
        async with gate.session.get(gate.url + PATH, headers=ALICE) as shown:
            assert (await shown.json())["data"] == []
        memory = gate.gateway.memory
        assert memory is not None and memory.embedder is not None and store.indexes is not None
        vector = await asyncio.to_thread(memory.embedder.embed_blocking, QUESTION)
        assert store.indexes.nearest(tenant, vector, 5) == []
        questions, _ = await asyncio.to_thread(store.examples.private.counts, tenant)
        assert questions == 5


async def test_other_tenants_are_as_ever(tmp_path: Path) -> None:
    async with stage(tmp_path / "data", private={"tenants": ["id:" + "0" * 32]}) as here:
        await here.gate.chat(QUESTION, ALICE)
        assert (await here.gate.chat(ALIKE, ALICE)).headers["x-understudy-engine"] == "small"


def store_of(here: Stage) -> Store:
    memory = here.gate.gateway.memory
    assert memory is not None
    return memory.store
