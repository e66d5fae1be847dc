"""The benchmark of stalls runs, and its probe sees a loop that stands still."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from aiohttp import web

from benchmarks.stalls.__main__ import exceeded, measured, table
from benchmarks.stalls.loads import loads
from benchmarks.stalls.probe import Probe
from tests.aiohttp_server import aiohttp_server


@pytest.mark.slow
def test_each_load_is_asked_and_the_loop_watched_meanwhile(tmp_path: Path) -> None:
    asked = loads(quick=True)
    figures = measured(tmp_path, asked, rounds=1)
    assert [row["load"] for row in figures][1:] == [load.name for load in asked]
    assert all(
        0 < held <= wall for row in figures for held, wall in zip(row["held_ms"], row["wall_ms"], strict=True)
    )
    assert table(figures).count("\n") == len(figures) + 1


def test_a_load_is_above_its_budget_by_its_median() -> None:
    figures = [
        {"load": "idle", "budget_ms": None, "held_ms": [90.0]},
        {"load": "one bad round", "budget_ms": 20, "held_ms": [3.0, 90.0, 5.0]},
        {"load": "slow", "budget_ms": 20, "held_ms": [3.0, 21.0, 25.0]},
    ]
    assert exceeded(figures) == ["slow"]


def test_each_repetition_asks_something_else() -> None:
    for load in loads(quick=False):
        if "30 MB" not in load.name:
            assert load.body(1) != load.body(2), load.name


async def test_the_probe_sees_who_holds_the_loop() -> None:
    async def busy(request: web.Request) -> web.Response:
        if request.path == "/busy":
            end = time.thread_time() + 0.3
            while time.thread_time() < end:
                pass
        return web.Response()

    async with aiohttp_server(busy) as origin:
        port = int(origin.rpartition(":")[2])
        with await asyncio.to_thread(Probe, port, os.getpid()) as probe:
            await asyncio.to_thread(probe.taken)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /busy HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readline()
            worst = await asyncio.to_thread(probe.taken)
            writer.close()
            await asyncio.to_thread(probe.close)
    assert worst.held_s > 0.2 and worst.wall_s >= worst.held_s
