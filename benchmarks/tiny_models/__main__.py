"""`python -m benchmarks.tiny_models`: builds both models where they are not there yet, each in a process of its own.

They go to TINY_MODELS, else to `.cache/tiny-models`, as `lead` and `understudy`. What is there is built anew only if
the code that makes it has changed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.tiny_models.building import NAMES, build, is_built
from benchmarks.tiny_models.building import folder as usual_folder


def main() -> None:
    """The command line."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--only", choices=NAMES, help="one of them")
    arguments.add_argument("--folder", type=Path, default=usual_folder())
    chosen = arguments.parse_args()
    if chosen.only:
        build(chosen.folder, chosen.only, lambda said: print(f"{chosen.only}: {said}", flush=True))
        return
    began = time.monotonic()
    wanted = [name for name in NAMES if not is_built(chosen.folder, name)]
    command = [sys.executable, "-m", "benchmarks.tiny_models", "--folder", str(chosen.folder), "--only"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    running = [subprocess.Popen([*command, name], env=environment) for name in wanted]
    ended = [process.wait() for process in running]
    if any(ended):
        sys.exit("a model could not be built")
    print(f"both are in {chosen.folder} ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    main()
