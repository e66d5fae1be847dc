"""Where the tiny models are, whether they are those of the present code, and building them. Imports torch only to build."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

NAMES = ("lead", "understudy")
ROOT = Path(__file__).resolve().parents[2]


def folder() -> Path:
    """Where the models are, or would be: TINY_MODELS if set, else `.cache/tiny-models` in the repository."""
    return Path(os.environ.get("TINY_MODELS") or ROOT / ".cache" / "tiny-models")


def is_built(models: Path, name: str) -> bool:
    """Whether the model `name` is in `models`, made by the code as it is now."""
    made = models / name / "made_by"
    return made.is_file() and made.read_text(encoding="utf-8") == fingerprint()


def fingerprint() -> str:
    """Of everything that decides what the models become."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def build(models: Path, name: str, say: Callable[[str], None]) -> None:
    """Makes the model `name` unless it is there. Two callers at a time make it once.

    Takes two to three minutes of one processor. Raises recipes.NotLearnt, ImportError without the extra `train`.
    """
    models.mkdir(parents=True, exist_ok=True)
    with (models / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_built(models, name):
            return
        from benchmarks.tiny_models import recipes

        began, made_by = time.process_time(), fingerprint()
        unfinished = models / f".{name}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        make = {"lead": recipes.make_lead, "understudy": recipes.make_understudy}[name]
        exams = make(unfinished, say)
        (unfinished / "made_by").write_text(made_by, encoding="utf-8")
        shutil.rmtree(models / name, ignore_errors=True)
        unfinished.rename(models / name)
        say(f"built in {time.process_time() - began:.0f} CPU s: {json.dumps(exams)}")
