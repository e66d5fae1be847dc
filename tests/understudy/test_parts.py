"""The list of parts: order of starting, telling and stopping."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from router.finished import Finished
from understudy.parts import Parts

FINISHED = cast(Finished, object())


def noted(notes: list[Any], what: str) -> Any:
    return lambda *_: notes.append(what)


async def test_parts_start_in_order_and_stop_last_first() -> None:
    notes: list[Any] = []
    parts = Parts()

    async def aclose() -> None:
        notes.append("second stopped")

    parts.add("one", start=noted(notes, "first started"), stop=noted(notes, "first stopped"))
    parts.add("two", start=noted(notes, "second started"), aclose=aclose)
    parts.start()
    await parts.aclose()
    assert notes == ["first started", "second started", "second stopped", "first stopped"]


async def test_the_last_part_is_told_first() -> None:
    notes: list[Any] = []
    parts = Parts()
    parts.add("recorder", finished=noted(notes, "recorder"))
    parts.add("silent")
    parts.add("judging", finished=noted(notes, "judging"))
    parts.finished(FINISHED)
    assert notes == ["judging", "recorder"]


async def test_a_part_that_fails_to_stop_keeps_no_other_from_stopping() -> None:
    notes: list[Any] = []
    parts = Parts()

    def fail() -> None:
        raise OSError("the disk is full")

    parts.add("store", stop=noted(notes, "store"))
    parts.add("broken", stop=fail)
    parts.add("engines", stop=noted(notes, "engines"))
    with pytest.raises(OSError, match="disk is full"):
        await parts.aclose()
    assert notes == ["engines", "store"]


async def test_what_blocks_is_stopped_in_a_thread() -> None:
    threads: list[int] = []
    parts = Parts()
    parts.add("store", stop=lambda: threads.append(threading.get_ident()))
    await parts.aclose()
    assert threads != [threading.get_ident()]


def test_owned_finds_the_objects_of_a_class() -> None:
    parts = Parts()
    assert parts.add("one") == "one"
    parts.add(2)
    assert parts.owned(str) == ["one"] and parts.owned(float) == []
    assert [part.owner for part in parts] == ["one", 2]
