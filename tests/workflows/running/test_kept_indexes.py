"""Indexes of runs, and of tenants' collections, which follow their rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engines.components.component import ComponentError
from store.workflows.assets import Assets
from store.workflows.records import Limits
from tests.store.contract.conftest import BACKENDS, opener
from workflows.running.kept_indexes import OfCollection, WorkflowIndexes

EAST, NORTH, WEST = (
    np.array([[1, 0]], np.float32),
    np.array([[0, 1]], np.float32),
    np.array([[-1, 0]], np.float32),
)


@pytest.fixture(params=BACKENDS)
def assets(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Assets]:
    store = opener(request.param, request, tmp_path / "data")()
    yield store.runs.assets
    store.close()


def collection(indexes: WorkflowIndexes, tenant: str = "t1", embedder: str = "local") -> OfCollection:
    return indexes.collection(tenant, "papers", embedder=embedder, contributor="k", source="run:step")


def made(assets: Assets, limits: Limits | None = None) -> WorkflowIndexes:
    return WorkflowIndexes(assets, lambda name: f"identity of {name}", limits)


async def texts(index: OfCollection, k: int = 9) -> list[str]:
    return [text for text, _, _ in await index.search(EAST[0], k)]


async def test_an_index_of_a_run_is_its_own() -> None:
    indexes = WorkflowIndexes(None, str)
    first, second = indexes.of_run("r"), indexes.of_run("r")
    await first.add(0, ["east"], EAST)
    assert [hit[0] for hit in await first.search(EAST[0], 1)] == ["east"]
    assert await second.search(EAST[0], 1) == []
    with pytest.raises(ComponentError, match="numbers"):
        await first.add(1, ["x"], np.ones((1, 3), np.float32))
    with pytest.raises(ComponentError, match="needs a memory"):
        collection(indexes)


async def test_what_any_worker_adds_is_found_by_all_and_by_no_other_tenant(assets: Assets) -> None:
    here, there = made(assets), made(assets)
    index = collection(here)
    assert await texts(index) == []
    await index.add(0, ["east", "west"], np.concatenate([EAST, WEST]))
    assert await texts(index) == await texts(collection(there)) == ["east", "west"]
    await collection(there).add(0, ["north"], NORTH)
    assert await texts(index) == await texts(collection(there)) == ["east", "north", "west"]
    assert await texts(collection(here, "t2")) == []


async def test_adding_again_keeps_a_text_once(assets: Assets) -> None:
    index = collection(made(assets))
    for _ in range(2):
        await index.add(0, ["east"], EAST)
    assert await texts(index) == ["east"]


async def test_a_collection_that_was_removed_is_empty(assets: Assets) -> None:
    indexes = made(assets)
    await collection(indexes).add(0, ["east"], EAST)
    assert await texts(collection(indexes)) == ["east"]
    assert assets.remove_collection("t1", "papers").result()
    assert await texts(collection(indexes)) == []
    await collection(indexes).add(0, ["north"], NORTH)
    assert await texts(collection(indexes)) == ["north"]


@pytest.mark.slow
async def test_more_than_a_thousand_rows_are_all_read(assets: Assets) -> None:
    many = [f"t{n}" for n in range(2500)]
    await collection(made(assets)).add(0, many, np.repeat(EAST, 2500, axis=0))
    assert await texts(collection(made(assets)), 5000) == many


async def test_vectors_of_another_embedder_are_not_compared(assets: Assets) -> None:
    indexes = made(assets)
    await collection(indexes).add(0, ["east"], EAST)
    other = collection(indexes, embedder="other")
    for attempt in (other.search(EAST[0], 1), other.add(0, ["x"], EAST)):
        with pytest.raises(ComponentError, match="vectors of another embedder"):
            await attempt
    assert await texts(collection(indexes)) == ["east"]


async def test_a_tenant_keeps_no_more_than_it_may(assets: Assets) -> None:
    index = collection(made(assets, Limits(max_total_bytes=10)))
    with pytest.raises(ComponentError, match="more than its tenant may keep"):
        await index.add(0, ["east " * 100], EAST)
    assert await texts(index) == []
