"""A package of another's with a name of ours is named at the start."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from understudy.shadowed import PACKAGES, shadowed

ROOT = Path(__file__).parent.parent.parent


def test_nothing_is_shadowed_here_and_every_package_is_looked_at() -> None:
    assert shadowed() is None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {*PACKAGES, "understudy"} == set(packages)


@pytest.mark.parametrize("file", ["store/__init__.py", "store.py", "gateway/__init__.py"])
def test_what_stands_before_a_package_of_ours_is_named_instead_of_an_import_error(
    file: str, tmp_path: Path
) -> None:
    other = tmp_path / file
    other.parent.mkdir(exist_ok=True)
    other.write_text("raise ImportError('of another project')\n")
    words = [sys.executable, "-m", "understudy", "check", "config.yaml"]
    environment = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        words, cwd=ROOT / "docs", env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert str(other) in done.stderr and "Traceback" not in done.stderr


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert "'admin' is missing" in (shadowed() or "")
