"""The header of a write-ahead log's index, which SQLite keeps in memory that all processes share.

Every commit changes it before it returns, and what is committed is read by way of it; so a look at it tells whether
anything was, without a system call and without letting go of the interpreter.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_HEADER_BYTES = 2 * 48
"""Both copies (https://sqlite.org/walformat.html, 2.1): one may have been written when its writer was killed."""
_VERSION = 3007000
_MAPS = Path("/proc/self/maps")


def wal_header(path: Path) -> memoryview | None:
    """The index header of the database at `path`, where SQLite has it mapped; None where that cannot be told.

    It must not be looked at after the last connection of this process to that database was closed. The file is not
    opened a second time: closing that would take away the locks that SQLite holds on it (POSIX, fcntl).
    """
    try:
        maps = _MAPS.read_bytes().splitlines()
    except OSError:
        return None
    name = os.fsencode(f"{os.path.realpath(path)}-shm")
    # address-address rights offset device inode name
    mapped = [fields for line in maps if (fields := line.split(maxsplit=5))[5:] == [name]]
    starts = [int(fields[0].partition(b"-")[0], 16) for fields in mapped if int(fields[2], 16) == 0]
    if len(starts) != 1:
        return None
    header = memoryview((ctypes.c_ubyte * _HEADER_BYTES).from_address(starts[0])).cast("B").toreadonly()
    return header if int.from_bytes(header[:4], sys.byteorder) == _VERSION else None
