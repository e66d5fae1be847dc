"""What of a data folder is backed up, and which files that is: names only, and the copying of the database.

Left out is what is rebuilt (`index/`, `models/`) and what only means something to running processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from store.sqlite.copying import Copied, checked_copy, copy_database, refuse_other

DATABASE = "understudy.db"
SECRET = "secret"
SECRET_BYTES = 32
_ARTIFACTS = "artifacts"
_ARTIFACT = re.compile(r"artifacts/[A-Za-z0-9][A-Za-z0-9._-]{0,254}")

__all__ = [
    "DATABASE",
    "SECRET",
    "SECRET_BYTES",
    "Copied",
    "checked_copy",
    "copied",
    "is_ours",
    "refuse_other",
]


def copied(data_folder: Path, to: Path) -> tuple[Copied, Iterator[tuple[str, Path]]]:
    """Copies the database into the folder `to`. Gives what it is, and (name in a backup, file) of everything to be kept.

    The database comes first: versions of what was learnt are only ever added before a row names them. One that is removed
    while it is copied is left out by whoever finds it gone. Raises FileNotFoundError without a database, and what
    store.sqlite.copying raises.
    """
    source = data_folder / DATABASE
    if not source.is_file():
        raise FileNotFoundError(f"{data_folder} holds no {DATABASE}: it is no gateway's data folder")
    target = to / DATABASE
    made = copy_database(source, target)
    return made, _files(data_folder, target)


def _files(data_folder: Path, database: Path) -> Iterator[tuple[str, Path]]:
    yield DATABASE, database
    yield SECRET, data_folder / SECRET
    for path in sorted((data_folder / _ARTIFACTS).glob("*")):
        name = f"{_ARTIFACTS}/{path.name}"
        if path.is_file() and is_ours(name):
            yield name, path


def is_ours(name: str) -> bool:
    """Whether a backup may hold a file of this name: nothing else is ever written into a data folder."""
    return name in (DATABASE, SECRET) or _ARTIFACT.fullmatch(name) is not None
