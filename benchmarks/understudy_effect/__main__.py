"""Does a small model with chosen examples do what a large one did? With real models in real engines, through a real gateway.

    python -m benchmarks.understudy_effect --json effect.json --charts FOLDER

Two tiny language models (docs/how-to/run-tiny-real-models.md) served by vLLM; a gateway per study, over real sockets.
First a log, and a scorer trained on it. Then a bank that stands still, and each way to answer the same questions:
accuracy, win rate, pace, cost, and what is done about questions that no example helps with. Then traffic from an
empty bank under several policies, the router learning as it goes. See docs/experiments/understudy-effect.md for what
this shows and what not.

Needs `make vllm-env tiny-models`, or UNDERSTUDY_VLLM_SMALL and UNDERSTUDY_VLLM_LARGE set to URLs of servers of these
models.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.options import options, write
from benchmarks.tiny_models import building
from benchmarks.understudy_effect import frozen, report, scorer, stream
from benchmarks.understudy_effect.asking import USD_PER_MTOK
from benchmarks.vllm import environment
from benchmarks.vllm.serving import Served, remote, serving
from router.embedding.onnx_session import import_onnxruntime


def main() -> None:
    """Prints the tables; with --json also writes every figure, with --charts the pictures."""
    arguments = options(__doc__)
    arguments.add_argument("--charts", type=Path, help="folder for the charts (SVG)")
    arguments.add_argument("--requests", type=int, default=2000, help="of the stream")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", choices=["frozen", "stream"], help="one of the two studies")
    chosen = arguments.parse_args()
    import_onnxruntime()  # before anything imports usearch
    with servers() as (small, large), tempfile.TemporaryDirectory(prefix="understudy-effect-") as folder:
        found = experiment(Path(folder), small, large, chosen.requests, chosen.seed, chosen.only)
    print("\n".join(report.lines(found)))
    write(found, chosen.json)
    if chosen.charts and "stream" in found:
        report.draw(found, chosen.charts)


@contextmanager
def servers() -> Iterator[tuple[Served, Served]]:
    """(small, large): those that the environment names, else two of our own. Says so and exits where neither can be had."""
    small, large = os.environ.get("UNDERSTUDY_VLLM_SMALL"), os.environ.get("UNDERSTUDY_VLLM_LARGE")
    if small and large:
        yield remote(small), remote(large)
        return
    installed, models = environment.folder(), building.folder()
    if not environment.is_installed(installed) or not all(
        building.is_built(models, n) for n in building.NAMES
    ):
        print(
            f"skipped: no vLLM in {installed} or no tiny models in {models}; run `make vllm-env tiny-models`"
        )
        sys.exit()
    with tempfile.TemporaryDirectory(prefix="understudy-vllm-") as folder:
        paths = {name: models / name for name in building.NAMES}
        with serving(installed, paths, Path(folder)) as both:
            yield both["understudy"], both["lead"]


def experiment(
    folder: Path, small: Served, large: Served, requests: int, seed: int, only: str | None = None
) -> dict[str, Any]:
    """Every figure, or those of one study; both need the scorer that is trained first."""
    began = time.monotonic()
    made, training = scorer.trained(folder, small, large, seed)
    _say(f"a scorer is trained ({training['state']})", began)
    found: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "seed": seed,
        "usd_per_mtok": USD_PER_MTOK,
        "scorer": training,
    }
    if only != "stream":
        found["frozen"] = frozen.study(folder, small, large, seed, made)
        _say("the still banks are measured", began)
    if only != "frozen":
        found["stream"] = stream.study(folder, small, large, requests, seed, made)
        _say("the stream is played", began)
    return found | {"wall_s": time.monotonic() - began}


def _say(what: str, began: float) -> None:
    print(f"{time.monotonic() - began:6.0f} s  {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
