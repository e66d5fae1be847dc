"""Makes a release: the version and the date where they are written, two equal builds, a bill of materials, a commit, a tag.

`make release VERSION=0.2.0`. Nothing is uploaded, and nothing is pushed.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LOCKS = ("requirements-postgres.lock", "requirements-weights.lock")
"""What the CPU image installs."""
VERSION = r"[0-9]+\.[0-9]+\.[0-9]+(?:(?:a|b|rc)[0-9]+)?"
PLACES = {
    "pyproject.toml": r'(?m)^(version = ").*(")$',
    "deploy/helm/understudy/Chart.yaml": r"(?m)^((?:version|appVersion): ).*()$",
    "deploy/kubernetes/kustomization.yaml": r'(newTag: ")[^"]*(")',
    "deploy/kubernetes-postgresql/kustomization.yaml": r'(newTag: ")[^"]*(")',
}
"""Where the version is written, between two groups."""
JOB = ("deploy/kubernetes-postgresql/migration.yaml", r"(name: understudy-migrate-)[0-9a-z-]+()")
"""A Job's name has hyphens in place of dots."""


class CannotRelease(Exception):
    """The text says what to do."""


def write_version(version: str, day: str) -> None:
    """Write the version in every place, and date the changelog."""
    places = [(*place, version) for place in PLACES.items()] + [(*JOB, version.replace(".", "-"))]
    for name, pattern, written in places:
        path = ROOT / name
        text, count = re.subn(pattern, rf"\g<1>{written}\g<2>", path.read_text(encoding="utf-8"))
        if count == 0:
            raise CannotRelease(f"{name} does not say the version where it did")
        path.write_text(text, encoding="utf-8")
    changelog = ROOT / "CHANGELOG.md"
    before, heading, after = changelog.read_text(encoding="utf-8").partition("## Unreleased\n")
    if not after.strip() or after.lstrip().startswith("## "):
        raise CannotRelease("CHANGELOG.md has nothing below '## Unreleased'")
    changelog.write_text(f"{before}{heading}\n## {version} ({day})\n{after}", encoding="utf-8")


def build(folder: Path) -> dict[str, str]:
    """Build the wheel and the source archive into `folder`; their checksums (SHA-256) by name."""
    words = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def bill_of_materials(version: str, checksums: dict[str, str]) -> dict[str, Any]:
    """A CycloneDX 1.6 document of what the locks pin. It is the same for the same release: it has no time of its own."""
    texts = [(ROOT / lock).read_text(encoding="utf-8") for lock in LOCKS]
    pins = sorted({pin for text in texts for pin in re.findall(r"(?m)^([a-z0-9._-]+)==([^\s;\\]+)", text)})
    (wheel,) = [checksum for name, checksum in checksums.items() if name.endswith(".whl")]
    gateway = {**_component("understudy-gateway", version), "type": "application"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, wheel + repr(pins))}",
        "version": 1,
        "metadata": {"component": {**gateway, "hashes": [{"alg": "SHA-256", "content": wheel}]}},
        "components": [_component(*pin) for pin in pins],
    }


def _component(name: str, version: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{version}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def release(version: str) -> None:
    """All of it. Raises CannotRelease; files that were changed by then stay changed, for `git restore`."""
    if not re.fullmatch(VERSION, version):
        raise CannotRelease(f"{version!r} is not a version; 0.2.0 or 0.2.0rc1 would be")
    tag = f"v{version}"
    if _git("status", "--porcelain"):
        raise CannotRelease("the checkout has changes that are not committed")
    if _git("tag", "--list", tag):
        raise CannotRelease(f"the tag {tag} exists already")
    write_version(version, datetime.datetime.now(datetime.UTC).date().isoformat())
    dist = ROOT / "dist" / version
    with tempfile.TemporaryDirectory() as once, tempfile.TemporaryDirectory() as again:
        checksums, others = build(Path(once)), build(Path(again))
        if checksums != others:
            raise CannotRelease(f"two builds differ: {checksums} and {others}")
        dist.mkdir(parents=True, exist_ok=True)
        for name in checksums:
            (dist / name).write_bytes((Path(once) / name).read_bytes())
    bill = json.dumps(bill_of_materials(version, checksums), indent=1) + "\n"
    (dist / f"understudy_gateway-{version}.cdx.json").write_text(bill, encoding="utf-8")
    listed = "".join(f"{checksum}  {name}\n" for name, checksum in checksums.items())
    (dist / "SHA256SUMS").write_text(listed, encoding="utf-8")
    _git("commit", "--quiet", "--all", "--message", f"Release {version}")
    _git("tag", "--annotate", tag, "--message", f"Understudy {version}")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotRelease(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    try:
        release(sys.argv[1])
    except CannotRelease as told:
        sys.exit(f"Error: {told}")
