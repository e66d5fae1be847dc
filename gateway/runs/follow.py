"""What happens in a run, as events for a client that follows all of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from gateway.runs.live import LiveRun
from gateway.runs.shown import variable
from workflows.criteria import Criteria
from workflows.progress import Changes

_IDLE_S = 15.0


async def followed(run: LiveRun) -> AsyncIterator[dict[str, Any] | None]:
    """Events of steps that begin and end, of texts that somebody wants as they come (`ttft`), and of variables that end.

    None: nothing has happened for a while.
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
                yield _ended(run, cell.id)
        while run.ended is None or not all(cell.kept for cell in run.cells.values()) or not queue.empty():
            for cell in streamed:
                if len(cell.text) > told[cell.id] and not cell.ended:
                    piece, told[cell.id] = cell.text[told[cell.id] :], len(cell.text)
                    yield {"type": "variable.delta", "variable": cell.id, "name": cell.name, "delta": piece}
            found = await _next(queue, [cell.changed for cell in streamed if not cell.ended])
            if found is None:
                yield None
            for event in found or ():
                if event["type"].startswith("variable.") and (id := event["variable"]["id"]) in told:
                    cell = run.cells[id]
                    if len(cell.text) > told[id]:
                        piece, told[id] = cell.text[told[id] :], len(cell.text)
                        yield {"type": "variable.delta", "variable": id, "name": cell.name, "delta": piece}
                yield event
    finally:
        run.watchers.remove(watch)


def _watcher(run: LiveRun, queue: asyncio.Queue[list[dict[str, Any]]]) -> Callable[[Changes], None]:
    def watch(changes: Changes) -> None:
        events = [
            {
                "type": "step.updated",
                "step": {"id": step, "name": run.name_of(step), "status": run.steps[step].state},
            }
            for step in (*changes.steps,)
            if step in run.steps
        ]
        events += [_ended(run, id) for id in (*changes.ready, *changes.failed) if id in run.cells]
        queue.put_nowait(events)

    return watch


def _ended(run: LiveRun, id: str) -> dict[str, Any]:
    cell = run.cells[id]
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
        done, _ = await asyncio.wait(waits, timeout=_IDLE_S, return_when=asyncio.FIRST_COMPLETED)
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
