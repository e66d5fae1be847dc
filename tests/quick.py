"""For a minute, the tests nearest to what was changed since main: `python -m tests.quick`, or `... ROOM` for a room's.

On main itself, where nothing is changed, they are those nearest to its last commit. A test file is as near as the shortest
chain of imports from it to a changed file. Left out are files that need more than values and a database (tests/worlds.py)
unless they were changed themselves, slow tests, and those on PostgreSQL unless its code was changed. Once the minute is over
the rest is skipped, and said to be. `make test` runs them all.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MOST_FILES = 60
"""Collecting one takes a tenth of a second."""
FOR_S = 45.0
_IMPORT = re.compile(r"^\s*(?:from ([\w.]+) import \(?([\w, ]*)|import ([\w.]+))", re.MULTILINE)
_began_s = time.monotonic()


def changed() -> list[Path]:
    """Files that differ from main's, those that git does not know yet included."""
    base = _base()
    names = _git("diff", "--name-only", base) + _git("ls-files", "--others", "--exclude-standard")
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def _base() -> str:
    (head,) = _git("rev-parse", "HEAD")
    base = (_git("merge-base", "HEAD", "main") or [head])[0]
    if base == head and not _git("status", "--porcelain"):
        return (_git("rev-parse", "--verify", "--quiet", "HEAD^") or [head])[0]
    return base


def _git(*words: str) -> list[str]:
    """The lines that git prints; none where it fails, as it does in a clone without `main`, or of one commit."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()


def nearest(files: list[Path]) -> list[Path]:
    """Test files by how near they are to some files, the nearest first."""
    importers: dict[str, list[Path]] = {}
    for path in map(Path, _git("ls-files", "--cached", "--others", "--exclude-standard", "*.py")):
        if (ROOT / path).is_file():
            for module in _imported((ROOT / path).read_text(encoding="utf-8")):
                importers.setdefault(module, []).append(ROOT / path)
    found: list[Path] = []
    seen, step = set(files), sorted(files)
    while step:
        found += [
            path for path in step if path.name.startswith("test_") and (path in files or _is_near(path))
        ]
        following = {importer for path in step for importer in importers.get(_module(path), ())} - seen
        seen |= following
        step = sorted(following)
    return found


def _imported(text: str) -> Iterator[str]:
    for of, names, whole in _IMPORT.findall(text):
        yield of or whole
        yield from (f"{of}.{name.split()[0]}" for name in names.split(",") if name.strip())


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _is_near(path: Path) -> bool:
    # Here, since pytest loads this file as a plugin and rewrites the other one's assertions afterwards.
    from tests.worlds import world_of

    return world_of(path, frozenset()) in ("unit", "store")


def pytest_runtest_setup() -> None:
    """Skip what would begin too late."""
    if time.monotonic() - _began_s > FOR_S:
        pytest.skip("the minute is over")


def main(rooms: list[str]) -> int:
    """Run them; gives pytest's exit status."""
    files = changed()
    chosen = [str(ROOT / "tests" / room) for room in rooms] or list(map(str, nearest(files)[:MOST_FILES]))
    if not chosen:
        print("nothing was changed that a test imports")
        return 0
    chosen += ["-m", "not slow and not train and not gpu and not vllm and not browser and not node"]
    if not any("postgres" in path.parts for path in files):
        chosen += ["-k", "not postgres"]
    in_order = ["-p", "tests.quick", "-n", "2", "--dist", "load", "--maxschedchunk", "2"]
    return subprocess.run([sys.executable, "-m", "pytest", *in_order, *chosen], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
