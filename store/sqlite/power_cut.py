"""Makes what was committed survive a power cut, for the few writes that must. A killed process loses nothing without it."""

from __future__ import annotations

import os
from pathlib import Path


def sync_log(path: Path) -> None:
    """Force the write-ahead log to the disk: afterwards whatever was committed before the call survives a power cut.

    A database that was not opened as durable commits by writing to the log, which the operating system carries to the disk
    when it pleases. A commit that is no longer in the log was moved into the database file, and SQLite syncs both at
    that (sqlite.org/wal.html, "Performance Considerations"). Blocks for as long as the disk takes, often milliseconds.
    Raises OSError, also where the database's file is gone: what is committed then is nowhere.
    """
    try:
        # Another descriptor of the same file will do: SQLite's locks are on other files than the log, so closing drops none.
        log = os.open(f"{path}-wal", os.O_RDONLY)
    except FileNotFoundError:
        path.stat()
        return
    try:
        os.fsync(log)
    finally:
        os.close(log)
