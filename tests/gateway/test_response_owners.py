"""Ids of responses: known at once, to their owner only, and what is kept here is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.response_owners import KEPT, RESPONSE, Asker, ResponseOwners, id_in, replayable
from store import Store
from store.answers.responses import KeptResponse
from store.people.owned import Owned


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "data")
    yield opened
    opened.close()


@pytest.fixture
def owners(store: Store) -> ResponseOwners:
    return ResponseOwners(store.owned, store.answers.responses)


def test_the_first_id_is_the_responses_own() -> None:
    assert id_in(b'{"id": "resp_1","output":[{"id":"msg_1"}]}') == "resp_1"
    created = b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_2","object"'
    assert id_in(created) == "resp_2"
    assert id_in(b'{"id":') == id_in(b'{"id":""}') == ""


async def test_what_was_just_noticed_is_its_owners_before_it_is_committed(owners: ResponseOwners) -> None:
    owners.noticed("resp_1", Owned(RESPONSE, "acme", "ann", "", "large"))
    owners.noticed("resp_1", Owned(RESPONSE, "acme", "bob", "", "small"))
    assert (await owners.find("resp_1", "acme", "ann")).engine == "large"  # type: ignore[union-attr]
    assert (await owners.find("resp_1", "acme", "bob")).engine == "small"  # type: ignore[union-attr]
    assert await owners.find("resp_1", "acme") is not None
    assert await owners.find("resp_1", "acme", "eve") is None and await owners.find("resp_1", "beta") is None
    assert await replayable(owners, b'{"id":"resp_1"}', Asker("acme", "ann"))
    assert not await replayable(owners, b'{"id":"resp_1"}', Asker("beta"))


async def test_strangers_are_told_apart_from_what_nobody_noted(owners: ResponseOwners, store: Store) -> None:
    owned = Owned(RESPONSE, "acme", "", "", "large")
    store.owned.note("resp_1", owned).result(30)
    assert not await owners.is_strangers("resp_1", Asker("acme", "ann"))
    assert await owners.is_strangers("resp_1", Asker("beta")) and not await owners.is_strangers(
        "resp_2", Asker("beta")
    )
    await owners.forget("resp_1", Asker("acme"), owned)
    assert await owners.find("resp_1", "acme") is None and not await owners.is_strangers(
        "resp_1", Asker("beta")
    )


async def test_what_is_about_to_be_kept_is_waited_for(owners: ResponseOwners, store: Store) -> None:
    kept = KeptResponse(b"{}", b"[]")
    assert owners.keeps and await owners.kept("resp_1", "acme") is None
    owners.noticed("resp_1", Owned(KEPT, "acme", "", "", "small"))
    async with asyncio.TaskGroup() as tasks:
        found = tasks.create_task(owners.kept("resp_1", "acme"))
        await asyncio.sleep(0)
        store.answers.responses.put("resp_1", "acme", kept)
    assert found.result() == kept


async def test_without_a_store_ids_are_known_in_this_process_only() -> None:
    owners = ResponseOwners()
    owned = Owned(RESPONSE, "acme", "", "", "large")
    owners.noticed("resp_1", owned)
    assert await owners.find("resp_1", "acme") == owned and await owners.find("resp_2", "acme") is None
    assert not owners.keeps and await owners.kept("resp_1", "acme") is None
    assert not await owners.is_strangers("resp_1", Asker("beta"))
    await owners.forget("resp_1", Asker("acme"), owned)
    assert await owners.find("resp_1", "acme") is None
