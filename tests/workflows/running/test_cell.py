"""A variable in memory: it is written once, and whoever waits for it is told."""

from __future__ import annotations

import asyncio

from workflows.progress import Failure
from workflows.running.cell import Cell


async def test_readers_are_told_of_each_change() -> None:
    cell = Cell("var_1", "n")

    async def read() -> list[str]:
        texts = []
        while not cell.ended:
            await cell.changed()
            texts.append(cell.text)
        return texts

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    for piece in ("a", "b"):
        cell.say(piece)
        await asyncio.sleep(0)
    cell.become("ab")
    assert await reading == ["a", "ab", "ab"] and cell.state == "ready"


async def test_who_wants_it_committed_waits_longer_and_who_leaves_is_not_kept() -> None:
    cell = Cell("var_1")
    leaving, waiting = (asyncio.create_task(cell.until_ended(kept=kept)) for kept in (False, True))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    cell.fail(Failure("cancelled", "", ()))
    await asyncio.sleep(0)
    assert not waiting.done()
    cell.keep()
    await waiting
    assert cell.state == "cancelled" and not cell._waiting and not cell._waiting_for_end


async def test_a_piece_of_text_wakes_nobody_who_wants_the_whole() -> None:
    cell = Cell("var_1")
    waiting = asyncio.create_task(cell.until_ended())
    await asyncio.sleep(0)
    before = list(cell._waiting_for_end)
    cell.say("a")
    await asyncio.sleep(0)
    assert list(cell._waiting_for_end) == before and not before[0].done()
    cell.become("a")
    await waiting
