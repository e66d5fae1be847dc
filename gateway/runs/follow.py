"""Tells what happens in a run, as events for a client that follows all of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from gateway.runs.events import IDLE_S
from gateway.runs.shown import variable
from workflows.criteria import Criteria
from workflows.progress import Changes
from workflows.running.cell import Cell
from workflows.running.live import LiveRun


async def followed(run: LiveRun) -> AsyncIterator[dict[str, Any] | None]:
    """Events of steps that begin and end, of texts that somebody wants as they come (`ttft`), and of variables that end.

    None: nothing has happened for a while. They end early where another process carries the run on (`lost`).
    """
    queue: asyncio.Queue[list[dict[str, Any]]] = asyncio.Queue()
    streamed = [
        run.cells[id] for id, c in run.progress.gets.items() if c is Criteria.TTFT and id in run.cells
    ]
    told = dict.fromkeys((cell.id for cell in streamed), 0)
    watch = _watcher(run, queue)
    run.watchers.append(watch)
    try:
        # Calls of its app may add steps while an event is being sent.
        for cell in tuple(run.cells.values()):
            if cell.ended:
                for event in _grown(cell, told):
                    yield event
                yield ended_event(cell)
        while not run.lost and not (_kept(run) and queue.empty()):
            for cell in streamed:
                for event in () if cell.ended else _grown(cell, told):
                    yield event
            found = await _next(queue, [cell.changed for cell in streamed if not cell.ended])
            if found is None:
                yield None
            for event in found or ():
                if event["type"].startswith("variable."):
                    for grown in _grown(run.cells[event["variable"]["id"]], told):
                        yield grown
                yield event
    finally:
        run.watchers.remove(watch)


def _kept(run: LiveRun) -> bool:
    """Tell if the run has ended and all its variables are kept."""
    return run.ended is not None and all(cell.kept for cell in run.cells.values())


def _grown(cell: Cell, told: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Give what was said of a variable since it was told last, if its text is told as it comes."""
    if len(cell.text) > told.get(cell.id, len(cell.text)):
        piece, told[cell.id] = cell.text[told[cell.id] :], len(cell.text)
        yield {"type": "variable.delta", "variable": cell.id, "name": cell.name, "delta": piece}


def _watcher(run: LiveRun, queue: asyncio.Queue[list[dict[str, Any]]]) -> Callable[[Changes], None]:
    def watch(changes: Changes) -> None:
        events = [
            {
                "type": "step.updated",
                "step": {"id": step, "name": run.name_of(step), "status": state},
            }
            for step in changes.steps
            for state in [run.progress.steps[step]]
        ]
        events += [ended_event(run.cells[id]) for id in changes.variables if id in run.cells]
        queue.put_nowait(events)

    return watch


def ended_event(cell: Cell) -> dict[str, Any]:
    """That a variable has its value, or never will."""
    return {"type": f"variable.{'done' if cell.state == 'ready' else 'failed'}", "variable": variable(cell)}


async def _next(
    queue: asyncio.Queue[list[dict[str, Any]]], changed: list[Callable[[], Any]]
) -> list[dict[str, Any]] | None:
    """The next events; an empty list where a text grew; None after a while of nothing."""
    if not queue.empty():
        return queue.get_nowait()
    loop = asyncio.get_running_loop()
    waits = {loop.create_task(each()) for each in (queue.get, *changed)}
    try:
        done, _ = await asyncio.wait(waits, timeout=IDLE_S, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            return None
        found: list[dict[str, Any]] = []
        for task in done:
            found += task.result() or []
        return found
    finally:
        for task in waits:
            task.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
