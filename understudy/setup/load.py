"""Tells how much a worker has to do, to itself and to the processes beside it."""

from __future__ import annotations

import time

from understudy.background.load_report import LoadMetrics, LoadReporter
from understudy.built import Built


def add_to(built: Built) -> None:
    """Report from the start on; what waits in the recorder counts once there is one."""
    memory, metrics = built.memory, built.metrics
    store = memory.store if memory is not None else None

    def recorded_to_s() -> float:
        return time.monotonic() if built.recorder is None else built.recorder.recorded_to_s()

    load = built.load = LoadReporter(
        store.folder if store is not None else None,
        recorded_to_s=recorded_to_s,
        elsewhere=store.jobs.loads if store is not None and store.shared else None,
        metrics=LoadMetrics(metrics.registry),
        all_ended=lambda: metrics.all_ended,
    )
    load.waits.append(lambda: 0.0 if built.recorder is None else built.recorder.queued())
    if memory is not None and memory.embedder is not None:
        load.waits += [memory.embedder.deadline.longest, memory.retrieval.longest]
    finished = None if memory is None else lambda _: load.ended()
    built.parts.add(load, start=load.start, stop=load.stop, finished=finished)
