"""A chore on an event loop holds its lease, lets it go however it ends, and waits for nobody."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from learning.alone import alone
from store.jobs.leases import Leases, NotAlone
from store.sqlite.database import Database


async def test_it_is_held_by_one_and_let_go_when_it_is_cancelled(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "u.db")
    leases, begun = Leases(db), asyncio.Event()

    async def chore() -> None:
        async with alone(leases, "chore"):
            begun.set()
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(chore())
        await begun.wait()
        with pytest.raises(NotAlone):
            async with alone(leases, "chore"):
                pass
        task.cancel()
    assert not leases.held()
    async with alone(leases, "chore"):
        assert [held.epoch for held in leases.held()] == [2]
    db.close()
