"""The folder in which processes add up their metrics: it goes with them, or at the next start after a kill."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "understudy-metrics-"
_YOUNG_S = 60.0
"""A folder younger than this may not be locked yet."""


@contextmanager
def metrics_folder() -> Iterator[str]:
    """A folder for these processes alone. Those of processes that were killed are removed first."""
    _remove_left_over()
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        # Forked processes share the lock: it is free when the last of them has ended.
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield folder
        finally:
            os.close(descriptor)


def _remove_left_over() -> None:
    for folder in Path(tempfile.gettempdir()).glob(_PREFIX + "*"):
        # Another user's, or gone meanwhile.
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _YOUNG_S and _is_unused(folder):
                shutil.rmtree(folder)


def _is_unused(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
