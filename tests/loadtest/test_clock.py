"""Callbacks come at their time, in order."""

from __future__ import annotations

import asyncio

from loadtest.clock import Alarm, now


async def test_callbacks_come_in_order_of_their_time_and_never_early() -> None:
    alarm = Alarm(asyncio.get_running_loop())
    seen: list[tuple[str, float]] = []
    over = asyncio.Event()
    start = now()
    alarm.call_at(start + 0.020, lambda: (seen.append(("late", now())), over.set()))
    alarm.call_at(start + 0.0051, lambda: seen.append(("early", now())))
    alarm.call_at(start - 1.0, lambda: seen.append(("overdue", now())))
    await asyncio.wait_for(over.wait(), 60)
    alarm.close()
    assert [name for name, _ in seen] == ["overdue", "early", "late"]
    assert seen[1][1] >= start + 0.0051
    assert seen[2][1] >= start + 0.020


async def test_a_callback_that_always_calls_itself_at_once_does_not_starve_the_loop() -> None:
    alarm = Alarm(asyncio.get_running_loop())

    def again() -> None:
        alarm.call_at(now(), again)

    again()
    await asyncio.wait_for(asyncio.sleep(0.02), 60)
    alarm.close()


async def test_a_closed_alarm_calls_nothing() -> None:
    alarm = Alarm(asyncio.get_running_loop())
    alarm.call_at(now() + 0.005, lambda: seen.append(1))
    seen: list[int] = []
    alarm.close()
    await asyncio.sleep(0.02)
    assert not seen
