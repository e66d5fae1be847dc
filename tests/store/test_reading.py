"""Reading for an event loop: inline, or on threads with a deadline, and a bound on how much may wait."""

from __future__ import annotations

import asyncio
import threading

import pytest

from store import reading
from store.errors import StoreFailed
from store.reading import INLINE, REFUSING, BlockingRead, ReadLate, Reads, refuse_on_loop


async def test_inline_it_is_done_on_the_spot() -> None:
    assert INLINE.inline
    assert (
        await INLINE(threading.get_ident)
        == await INLINE.in_time(threading.get_ident)
        == threading.get_ident()
    )


async def test_on_threads_the_loop_goes_on_and_errors_come_through() -> None:
    reads = Reads(1, deadline_s=30)

    def fails() -> None:
        raise StoreFailed("no connection")

    try:
        assert not reads.inline
        assert await reads(threading.get_ident) != threading.get_ident()
        assert await reads.in_time(int, "ff", base=16) == 255
        for read in (reads(fails), reads.in_time(fails)):
            with pytest.raises(StoreFailed):
                await read
    finally:
        reads.close()


async def test_late_reads_are_given_up_and_do_not_pile_up() -> None:
    reads = Reads(1, deadline_s=0.01)
    answered = threading.Event()
    try:
        late = await asyncio.gather(
            *(reads.in_time(answered.wait) for _ in range(16)), return_exceptions=True
        )
        assert {type(one) for one in late} == {ReadLate}
        with pytest.raises(ReadLate, match="too many"):
            await reads.in_time(answered.wait)
        answered.set()
        assert await reads(answered.wait)
        await asyncio.sleep(0)
        assert await reads.in_time(int) == 0
    finally:
        answered.set()
        reads.close()


async def test_a_blocking_read_on_a_loop_is_refused_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(REFUSING, raising=False)
    refuse_on_loop()
    monkeypatch.setenv(REFUSING, "1")
    monkeypatch.setattr(reading, "refused", [])
    await asyncio.to_thread(refuse_on_loop)
    with pytest.raises(BlockingRead):
        refuse_on_loop()
    assert "test_reading.py" in reading.refused[0]
