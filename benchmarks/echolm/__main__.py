"""What would the paper's experiments (EchoLM §6) give with our router? A simulation: `python benchmarks/echolm.py`.

A discrete-event simulation in virtual time. Simulated are two engines (echolm_engines), requests, difficulty and the
effect of examples (echolm_world, echolm_examples), the judge, the embeddings (synthetic directions per topic) and the
proxy model (the truth and noise). Real are router.chooser, router.bandit_vw (it learns online, from a sample of outcomes a
minute late), router.combiner, router.load_bias, router.reward, router.rule_choice (until the bandit has learnt enough), and
the exploration budget.

Engines and win rates are calibrated on the paper's Gemma-2 2B and 27B figures, so that what comes out for a single engine
is what was put in. It shows what routing makes of such engines, and nothing about any real model. See
docs/experiments/echolm.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.echolm import world
from benchmarks.echolm.engines import LARGE, SMALL
from benchmarks.echolm.examples import Scales, calibrated
from benchmarks.echolm.report import LABEL, lines, summary
from benchmarks.echolm.scenarios import Size, experiments, trace_of

from loadtest.traces import read_trace

QUICK = Size(seeds=1, minutes=3.0, warm_up=1500, dials=(0.2, 0.25, 0.3, 0.4), step_minutes=3.0)


def main() -> None:
    """Prints the tables; with --json also writes every figure."""
    whole = Size()
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument(
        "--data", type=Path, default=Path("../shared/data"), help="folder with trace_azure2023_conv.csv.gz"
    )
    arguments.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments.add_argument("--seeds", type=int)
    arguments.add_argument("--minutes", type=float, help="of virtual time per load")
    arguments.add_argument("--quick", action="store_true", help="under a minute: one seed, little traffic")
    arguments.add_argument("--proxy-correlation", type=float, default=echolm_world.PROXY_CORRELATION)
    arguments.add_argument(
        "--classifier-correlation", type=float, default=echolm_world.CLASSIFIER_CORRELATION
    )
    chosen = arguments.parse_args()
    usual = QUICK if chosen.quick else whole
    size = Size(
        chosen.seeds or usual.seeds,
        chosen.minutes or usual.minutes,
        usual.warm_up,
        usual.dials,
        usual.step_minutes,
        chosen.classifier_correlation,
    )
    path = trace_of(chosen.data)
    trace = read_trace(path) if path.exists() else None
    if trace is None:
        print(f"Azure trace: skipped, {path} is not there", file=sys.stderr)
    began = time.process_time()
    sizes = (500, 3000, 7) if chosen.quick else ()
    scales = calibrated(*sizes, proxy_correlation=chosen.proxy_correlation)
    per_seed = experiments(scales, size, trace, lambda said: print(f"  {said}", file=sys.stderr, flush=True))
    found = summary(per_seed)
    print("\n".join(lines(found, size.seeds)))
    print(f"{time.process_time() - began:.0f} s of CPU")
    if chosen.json:
        chosen.json.write_text(json.dumps(document(found, per_seed, size, scales), indent=1))


def document(
    found: dict[str, Any], per_seed: list[dict[str, Any]], size: Size, scales: Scales
) -> dict[str, Any]:
    """What is written as JSON."""
    assumed = {
        "topic_variance": echolm_world.TOPIC_VARIANCE,
        "classifier_correlation": size.classifier_correlation,
        "proxy_correlation": scales.proxy_correlation,
        "poor_answers": echolm_world.POOR_ANSWERS,
        "one_offs": echolm_world.ONE_OFFS,
    }
    return {
        "simulation": True,
        "label": LABEL,
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "seeds": size.seeds,
        "minutes": size.minutes,
        "assumed": assumed,
        "engines": {m.name: {"step_s": m.step_s, "crowding_s": m.crowding_s} for m in (SMALL, LARGE)},
        **found,
        "per_seed": per_seed,
    }


if __name__ == "__main__":
    main()
