"""Mark each test with the world that it needs, so that `-m unit` or `-m "unit or store"` runs what needs no more.

    unit     values alone: no socket, no process, no database
    store    a database of its own, in files or of the shared PostgreSQL server
    flow     sockets: a gateway, pages or an engine within the test's process
    process  processes that it starts, or shares with other tests
    browser  Chromium

The world is the highest that the test's module, or a helper that it imports, can reach, or a fixture of the test. Nobody
keeps a list: a test moves to another world with what it imports.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WORLDS = ("unit", "store", "flow", "process", "browser")
_REACHES = {
    "browser": re.compile(r"\bplaywright\b|tests\.browser\.(?:stage|real_gateway|ways)"),
    "process": re.compile(
        r"^(?:from|import) (?:subprocess|multiprocessing)\b|ProcessPool|spawn", re.MULTILINE
    ),
    "flow": re.compile(
        r"^(?:from|import) (?:aiohttp|socket)\b|start_server|open_connection|HTTPServer|^import uvloop",
        re.MULTILINE,
    ),
    "store": re.compile(r"^import sqlite3|import Store\b|\bStore\.open|Database\b", re.MULTILINE),
}
_FIXTURES = {
    "browser": frozenset({"browser", "stage"}),
    "process": frozenset(
        {"gateway", "impatient", "small", "serving", "with_data", "mock", "serve_mock", "load"}
    ),
    "flow": frozenset({"upstream", "small_server", "pages", "tls"}),
    "store": frozenset({"store", "db", "either", "open_store", "postgres_url"}),
}
_HELPER = re.compile(r"^from (tests\.[\w.]+) import (?:\(\s*)?(\w+)", re.MULTILINE)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(world_of(item.path, frozenset(getattr(item, "fixturenames", ()))))


@cache
def world_of(path: Path, fixtures: frozenset[str]) -> str:
    """The world of a test in a file that asks for some fixtures."""
    asked = [WORLDS.index(world) for world, names in _FIXTURES.items() if names & fixtures]
    return WORLDS[max([WORLDS.index(_reached(path)), *asked])]


@cache
def _reached(path: Path) -> str:
    if path.parent.name in ("benchmarks", "vllm"):
        return "process"  # What they measure is beyond the helpers that are looked at here.
    text = "\n".join(map(_text, _with_helpers(path)))
    return next((world for world, found in _REACHES.items() if found.search(text)), "unit")


def _with_helpers(path: Path) -> set[Path]:
    seen, waiting = set[Path](), [path]
    while waiting:
        seen.add(at := waiting.pop())
        for module, name in _HELPER.findall(_text(at)):
            base = ROOT.joinpath(*module.split("."))
            files = {base.with_suffix(".py"), base / f"{name}.py"} - seen
            waiting.extend(file for file in files if file.is_file())
    return seen


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
