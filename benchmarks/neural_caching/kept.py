"""Runs that are done, one line of JSON each: a benchmark of hours goes on where it was stopped."""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

Wanted = TypeVar("Wanted")
Done = TypeVar("Done")


class Kept:
    """A file of runs, by what was wanted. The code that made them is not compared: begin another file after a change."""

    def __init__(self, path: Path | None) -> None:
        """`path`: None keeps nothing. Raises json.JSONDecodeError where a line is none of its own."""
        self._path = path
        self._found: dict[str, Any] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self._found[row["wanted"]] = row["run"]

    def each(
        self, work: Callable[[Wanted], Done], wanted: Sequence[Wanted], made: Any, jobs: int
    ) -> Iterator[Done]:
        """What `work` makes of each, in their order, by `jobs` forked processes; says how far it is. `made`: the type of
        what it makes. What the file holds is not made again."""
        adapter: TypeAdapter[Done] = TypeAdapter(made)
        keys = [f"{work.__name__} {one!r}" for one in wanted]
        missing = [one for key, one in zip(keys, wanted, strict=True) if key not in self._found]
        began = time.monotonic()
        with multiprocessing.get_context("fork").Pool(jobs) as pool:
            fresh = pool.imap(work, missing)
            number = 0
            for key in keys:
                if key in self._found:
                    yield adapter.validate_python(self._found[key])
                    continue
                done, number = next(fresh), number + 1
                self._add(key, adapter.dump_python(done))
                took = time.monotonic() - began
                print(f"{number} of {len(missing)} in {took:.0f} s", file=sys.stderr, flush=True)
                yield done

    def _add(self, key: str, run: Any) -> None:
        self._found[key] = run
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"wanted": key, "run": run}) + "\n")
