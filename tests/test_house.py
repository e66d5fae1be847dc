"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import graphlib
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
ROOMS = tuple(PROJECT["hatch"]["build"]["targets"]["wheel"]["packages"])
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def trees(*rooms: str, holding: str) -> Iterator[tuple[str, ast.Module]]:
    """Each module of some rooms in which a pattern is found, by its name."""
    for path in SOURCES:
        name, text = path.relative_to(ROOT), path.read_text(encoding="utf-8")
        if name.parts[0] in rooms and re.search(holding, text):
            yield str(name), ast.parse(text)


def test_no_installed_distribution_ships_one_of_our_package_names() -> None:
    owners = importlib.metadata.packages_distributions()
    for room in ROOMS:
        assert set(owners.get(room, [])) <= {"understudy-gateway"}, (
            f"{room} is also shipped by {owners[room]}"
        )


def test_every_tool_looks_at_every_package() -> None:
    """The wheel's list in pyproject.toml is the one that counts."""
    assert set(PROJECT["mypy"]["packages"]) == set(PROJECT["importlinter"]["root_packages"]) == set(ROOMS)


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for the type checker count, too: who needs another's name cannot be read without it."""
    graph = grimp.build_graph(*ROOMS, cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        graphlib.TopologicalSorter(imported).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_the_largest_package_holds_less_than_a_fifth_of_the_code() -> None:
    lines = dict.fromkeys(ROOMS, 0)
    for path in SOURCES:
        lines[path.relative_to(ROOT).parts[0]] += len(path.read_text(encoding="utf-8").splitlines())
    assert max(lines.values()) < sum(lines.values()) / 5, lines


def test_only_the_gateway_and_the_admin_pages_serve_http() -> None:
    served = re.compile(
        r"^\s*(?:from aiohttp import .*\bweb\b|from aiohttp\.web|import aiohttp\.web)", re.MULTILINE
    )
    serving = {path.relative_to(ROOT).parts[0] for path in SOURCES if served.search(path.read_text("utf-8"))}
    assert serving <= {"gateway", "admin", "loadtest"}


def test_every_module_says_what_it_is_for() -> None:
    silent = [path for path in SOURCES if not path.read_text("utf-8").lstrip().startswith('"""')]
    assert not silent, "a module opens with a docstring"


def test_nobody_outside_the_store_reaches_the_database_behind_it() -> None:
    """That nobody imports SQLite is import-linter's; this is about what an open store would give away."""
    found = [
        f"{name}: {ast.unparse(node)}"
        for name, tree in trees(*(set(ROOMS) - {"store"}), holding=r"\._?db\b")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("db", "_db")
    ]
    assert not found


def test_the_repository_holds_no_large_or_binary_file() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False
    ).stdout.split(b"\0")
    for name in filter(None, listed):
        path = ROOT / name.decode()
        if path.is_file():
            data = path.read_bytes()
            assert len(data) < 512 * 1024, f"{path} is {len(data)} bytes"
            assert b"\0" not in data, f"{path} is binary"


def test_the_lock_files_name_no_host_and_pin_every_line_with_a_hash() -> None:
    for lock in ROOT.glob("requirements*.lock"):
        text = lock.read_text(encoding="utf-8")
        assert "://" not in text, f"{lock.name} names a host"
        pins = re.findall(r"^[a-z0-9._-]+(?:\[[a-z,]+\])?==", text, re.MULTILINE | re.IGNORECASE)
        blocks = re.split(r"\n(?=[A-Za-z0-9])", text)
        assert pins
        assert all("--hash=sha256:" in b for b in blocks if "==" in b.split("\n")[0]), lock.name


def test_every_dependency_is_argued_for() -> None:
    argued = (ROOT / "docs" / "reference" / "dependencies.md").read_text(encoding="utf-8").lower()
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    names = set(re.findall(r'^\s*(?:[a-z]+ = \[)?"([A-Za-z0-9_.-]+)(?:[<>=\[].*)?",?', project, re.MULTILINE))
    named = {
        n.lower() for n in names if re.search(rf'"{re.escape(n)}[<>=\[]', project) or n.startswith("types-")
    }
    assert not {n for n in named if f"`{n}`" not in argued}


def test_the_example_configuration_is_current_and_short() -> None:
    from understudy.settings.example import example

    assert (ROOT / "config.example.yaml").read_text(encoding="utf-8") == example(), (
        "run: python -m understudy.settings.example"
    )
    assert len(re.findall(r"^ +[a-z_]+: \S", example(), re.MULTILINE)) <= 50


def test_every_setting_is_in_the_reference_and_it_is_current() -> None:
    from understudy.settings.config import Config
    from understudy.settings.names import settings_of
    from understudy.settings.reference import reference

    page = reference()
    assert (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8") == page, (
        "run: python -m understudy.settings.reference"
    )
    assert not [setting.name for setting in settings_of(Config) if f"`{setting.name}`" not in page]


def test_the_default_of_a_setting_is_written_nowhere_else() -> None:
    """A dataclass of knobs or limits has a default only for what nobody can set."""
    from understudy.settings.config import Config
    from understudy.settings.names import settings_of

    settings = {setting.name.rpartition(".")[2] for setting in settings_of(Config)}
    twice = []
    for name, tree in trees("router", "learning", "engines", holding=r"class \w+(?:Knobs|Limits|Timeouts)\b"):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name.endswith(("Knobs", "Limits", "Timeouts")):
                twice += [
                    f"{name}: {node.name}.{field.target.id}"
                    for field in node.body
                    if isinstance(field, ast.AnnAssign)
                    and isinstance(field.target, ast.Name)
                    and field.value is not None
                    and field.target.id in settings
                ]
    assert not twice


@pytest.mark.slow
def test_a_gateway_without_memory_imports_nothing_of_what_memory_stands_on() -> None:
    heavy = [
        "re2",
        "phonenumbers",
        "stdnum",
        "usearch",
        "onnxruntime",
        "tokenizers",
        "sqlite3",
        "store.admission",
        "store.sqlite",
        "store.store",
    ]
    script = (
        "import sys; from understudy.build import Gateway; from understudy.settings.file import parse_config\n"
        "Gateway(parse_config({'upstream': {'base_url': 'http://127.0.0.1:1/v1'}}))\n"
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=180, check=True
    )
    assert ended.stdout.strip() == "[]"


_ASKS_ENGINES = {
    "gateway/stages/engines.py",
    "gateway/passthrough.py",
    "gateway/websocket.py",
    "gateway/endpoints/by_model.py",
    "gateway/endpoints/models.py",
    "gateway/endpoints/stored_responses.py",
}
"""Each goes by the Admitted of its request."""
_ASKS_COMPONENTS = {"workflows/running/primitives.py"}


def test_only_the_relay_prepares_answers() -> None:
    """A handler that prepares aiohttp's response by itself does not work for a plain request (gateway.http.plain). The
    server does it for whole answers to the others."""
    preparing = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "gateway").rglob("*.py")
        if re.search(r"\.prepare\(|\.write_eof\(", path.read_text(encoding="utf-8"))
    }
    assert preparing == {
        "gateway/relay.py",
        "gateway/responses_socket.py",
        "gateway/server.py",
        "gateway/websocket.py",
    }


def test_only_admission_lets_anything_in() -> None:
    """An engine, a component and what is stored are reached with a router.asked.Admitted, which nothing else makes."""
    made, engines, components = set(), set(), set()
    rooms = ("gateway", "admin", "understudy", "router", "workflows")
    for name, tree in trees(*rooms, holding=r"Admitted|Attempts|asking|\.stream|components\."):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if "Admitted" in {called, *map(ast.unparse, node.args)} and "isinstance" not in called:
                made.add(name)
            if name.startswith(("gateway/", "workflows/running/")):
                if called in ("Attempts", "asking") or called.endswith((".stream", "engines.asking.ask")):
                    engines.add(name)
                if re.search(r"components\.(embed|rerank|search|call)$", called):
                    components.add(name)
    assert engines == _ASKS_ENGINES
    assert components == _ASKS_COMPONENTS
    assert made == {"gateway/admission.py"}
    for name in _ASKS_ENGINES:
        assert re.search(r"\badmitted\b|\bAdmitted\b|asked\.arrival", (ROOT / name).read_text("utf-8")), name
