"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("gateway", "admin", "router", "engines", "store", "loadtest")
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
TESTED_BY = {
    # Wiring, and what only means something with sockets around it: tested by whole requests.
    "gateway/__main__.py": "flow/process.py",
    "gateway/build.py": "flow/line.py",
    "gateway/run.py": "flow/line.py",
    "gateway/supervisor.py": "flow/test_workers.py",
    "gateway/memory.py": "flow/test_line_examples.py",
    "gateway/pipeline.py": "flow/test_line_examples.py",
    "gateway/handlers/chat.py": "flow/test_line_exact.py",
    "gateway/handlers/embeddings.py": "flow/test_line_exact.py",
    "gateway/handlers/models.py": "flow/test_line_examples.py",
    "gateway/handlers/health.py": "flow/test_workers.py",
    "gateway/keys.py": "flow/test_line_keys.py",
    "gateway/setup/keepers.py": "flow/test_line_examples.py",
    "gateway/keepers/example.py": "flow/test_line_admission.py",
    "gateway/keepers/request.py": "flow/test_line_examples.py",
    "gateway/keepers/use.py": "flow/test_line_examples.py",
    "gateway/feedback/correction.py": "gateway/handlers/test_feedback.py",
    "gateway/setup/embedder.py": "gateway/commands/test_example_settings.py",
    "gateway/setup/engines.py": "flow/line.py",
    "gateway/setup/examples.py": "flow/test_line_demonstrations.py",
    "gateway/cache_status.py": "flow/test_line_exact.py",
    "gateway/semantic/near_misses.py": "flow/test_line_near_misses.py",
    "gateway/own_response.py": "flow/test_line_exact.py",
    "engines/registry.py": "flow/line.py",
    "gateway/admin_pages/process.py": "flow/test_admin_process.py",
    "gateway/settings/admin.py": "flow/test_admin_process.py",
    # Each is a line that names a summary and a template; every test of the door asks for all of them.
    "admin/pages/audit.py": "admin/test_access.py",
    "admin/pages/overview.py": "admin/test_access.py",
    "admin/pages/engines.py": "admin/test_access.py",
    "admin/pages/learning.py": "admin/test_access.py",
    "admin/pages/replay.py": "admin/test_access.py",
    "admin/pages/settings.py": "admin/test_access.py",
    "admin/pages/tenants.py": "admin/test_access.py",
    "admin/sign_in.py": "admin/test_access.py",
    # Seams: nothing to run.
    "engines/engine.py": "engines/test_simulated.py",
    "router/policy.py": "router/test_few_shot.py",
}


def test_no_installed_distribution_ships_one_of_our_package_names() -> None:
    owners = importlib.metadata.packages_distributions()
    for room in ROOMS:
        assert set(owners.get(room, [])) <= {"understudy-gateway"}, (
            f"{room} is also shipped by {owners[room]}"
        )


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), "a module opens with a docstring"


def test_no_source_file_is_longer_than_400_lines() -> None:
    long = {
        str(p.relative_to(ROOT)): n
        for p in SOURCES
        if (n := len(p.read_text(encoding="utf-8").splitlines())) > 400
    }
    assert not long


def test_each_source_file_has_a_test_that_imports_it() -> None:
    assert all(
        (ROOT / "tests" / test).exists() and (ROOT / source).exists() for source, test in TESTED_BY.items()
    )
    tests = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "tests").rglob("*.py"))
    untested = []
    for path in SOURCES:
        name = str(path.relative_to(ROOT))
        module, package = (
            name.removesuffix(".py").replace("/", "."),
            path.parent.relative_to(ROOT).as_posix().replace("/", "."),
        )
        mirrored = ROOT / "tests" / path.relative_to(ROOT).parent / f"test_{path.name}"
        imported = (
            rf"\b(?:from|import) {re.escape(module)}\b|\bfrom {re.escape(package)} import .*\b{path.stem}\b"
        )
        exempt = path.name in ("__init__.py", "__main__.py") or name in TESTED_BY
        if not exempt and not mirrored.exists() and not re.search(imported, tests):
            untested.append(name)
    assert not untested


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


def test_every_setting_is_in_the_example_configuration() -> None:
    from gateway.settings.example import example

    assert (ROOT / "config.example.yaml").read_text(encoding="utf-8") == example(), (
        "run: python -m gateway.settings.example"
    )


def test_a_gateway_without_memory_imports_nothing_of_what_memory_stands_on() -> None:
    heavy = [
        "re2",
        "phonenumbers",
        "stdnum",
        "usearch",
        "onnxruntime",
        "tokenizers",
        "sqlite_utils",
        "router.admission",
    ]
    script = f"import sys, gateway.build; print([m for m in {heavy!r} if m in sys.modules])"
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=180, check=True
    )
    assert ended.stdout.strip() == "[]"


def test_the_page_with_a_line_for_every_file_is_up_to_date() -> None:
    from tests.file_map import file_map

    assert (ROOT / "docs" / "files.md").read_text(encoding="utf-8") == file_map(), (
        "run: python -m tests.file_map"
    )
