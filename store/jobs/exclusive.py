"""Lock files: work that only one of several processes does at a time."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)


def again_while_alone(
    chore: Callable[[], None], lock_file: Path, stopping: threading.Event, *, every_s: float, failed: str
) -> None:
    """Do `chore` again and again, `every_s` apart, whenever no other process is at it, until `stopping`. Blocks.

    What it raises is logged as the event `failed`. The lock goes with the process that holds it, however that ends.
    """
    with lock_file.open("w") as lock:
        while not stopping.is_set():
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                chore()
            except BlockingIOError:
                pass
            except Exception as error:
                log.error(failed, error=error)
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)
            stopping.wait(every_s)


class NotAlone(Exception):
    """Another process holds the lock file."""


@contextmanager
def alone(lock_file: Path) -> Iterator[None]:
    """Hold the lock file while the block runs. Raises NotAlone at once where another process, or block, holds it."""
    with lock_file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NotAlone(f"another process holds {lock_file}") from None
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)
