"""The learner's process: opens the store, trains until told to stop, and keeps the quality floors' accounts current."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import structlog

from router.choosing.linear import learner_told
from store.jobs.leases import Lease, do_if_alone
from understudy.settings.config import Config
from understudy.setup.learner import learning

log = structlog.get_logger(__name__)

_FLOORS_EVERY_S = 0.5
_TASKS_EVERY_S = 60.0
_PROMISING_S = 30.0
_LEARNING_S = 60.0
"""How long their leases last unless they are renewed. Training may hold the interpreter for seconds; workers trust a floor's
account for a minute (understudy.setup.in_context)."""


def learn(config: Config) -> int:
    """The process: opens the store, learns until SIGTERM or SIGINT. Returns its exit status."""
    stopping = threading.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: stopping.set())
    with learning(config, stopping.is_set) as parts:
        # On a thread of their own: training takes minutes, and a promise on quality cannot wait. So is the lease.
        promising = parts.leases.lease("floors", _PROMISING_S)
        training = parts.leases.lease("learner", _LEARNING_S)
        floors = threading.Thread(
            target=_again_and_again, args=(parts.floors, promising, _FLOORS_EVERY_S, stopping), name="floors"
        )
        floors.start()
        every_s = config.learning.advanced.every_s
        students = threading.Thread(
            target=_again_and_again, args=(parts.students.step, training, every_s, stopping), name="students"
        )
        students.start()
        tasks = threading.Thread(
            target=_again_and_again, args=(parts.tasks.step, training, _TASKS_EVERY_S, stopping), name="tasks"
        )
        tasks.start()
        log.info("learning", pid=os.getpid(), routers_learn_with=learner_told())
        _again_and_again(parts.learner.step, training, every_s, stopping)
        students.join()
        tasks.join()
        floors.join()
        training.release()
        promising.release()
    return 0


def _again_and_again(
    run: Callable[[], object], lease: Lease, every_s: float, stopping: threading.Event
) -> None:
    while not stopping.is_set():
        do_if_alone(run, lease, failed="learner_failed")
        stopping.wait(every_s)
