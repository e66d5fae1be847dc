"""The options that the benchmarks have in common, where their figures are written, and where they come from."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.recorded import DATA, ROOT


def options(doc: str | None, *, data: bool = False, cache: bool = False) -> argparse.ArgumentParser:
    """A parser with --json; with --data where recorded data is read, and --cache where models and vectors are kept."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    if data:
        parser.add_argument(
            "--data", type=Path, metavar="DIR", default=DATA, help="folder of recorded data [%(default)s]"
        )
    if cache:
        usual = Path(tempfile.gettempdir()) / "understudy-benchmarks"
        parser.add_argument(
            "--cache", type=Path, metavar="DIR", default=usual, help="kept between runs [%(default)s]"
        )
    return parser


def write(figures: Any, path: Path | None) -> None:
    """Write the figures as JSON, if a file was asked for."""
    if path is not None:
        path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def where() -> dict[str, str]:
    """The date, commit and machine of what is measured."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit.strip(),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
    }
