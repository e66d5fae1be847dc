"""What would the paper's experiments (EchoLM §6) give with our router? A simulation: `python -m benchmarks.echolm`.

A discrete-event simulation in virtual time. Simulated are two engines (engines.py), requests, difficulty and the
effect of examples (world.py, examples.py), the judge, the embeddings (synthetic directions per topic) and the
proxy model (the truth and noise). Real are router.choosing.chooser, router.choosing.bandit_vw (it learns online, from
a sample of outcomes a minute late), router.examples.combiner, router.choosing.load, router.choosing.reward,
router.choosing.rule_choice (until the bandit has learnt enough), and the exploration budget.

Engines and win rates are calibrated on the paper's Gemma-2 2B and 27B figures, so that what comes out for a single engine
is what was put in. It shows what routing makes of such engines, and nothing about any real model. See
docs/experiments/echolm.md.
"""

from __future__ import annotations

import platform
import sys
import time
from dataclasses import replace
from typing import Any

from benchmarks.echolm import world
from benchmarks.echolm.engines import LARGE, SMALL
from benchmarks.echolm.examples import Scales, calibrated
from benchmarks.echolm.report import LABEL, lines, summary
from benchmarks.echolm.scenarios import Size, experiments
from benchmarks.options import options, write
from benchmarks.recorded import NoData, there
from loadtest.traces import read_trace

QUICK = Size(seeds=1, minutes=3.0, warm_up=1500, dials=(0.2, 0.25, 0.3, 0.4), step_minutes=3.0)


def main() -> None:
    """Prints the tables; with --json also writes every figure."""
    arguments = options(__doc__, data=True)
    arguments.add_argument("--seeds", type=int)
    arguments.add_argument("--minutes", type=float, help="of virtual time per load")
    arguments.add_argument("--quick", action="store_true", help="under a minute: one seed, little traffic")
    arguments.add_argument("--proxy-correlation", type=float, default=world.PROXY_CORRELATION)
    arguments.add_argument("--classifier-correlation", type=float, default=world.CLASSIFIER_CORRELATION)
    chosen = arguments.parse_args()
    usual = QUICK if chosen.quick else Size()
    size = replace(
        usual,
        seeds=chosen.seeds or usual.seeds,
        minutes=chosen.minutes or usual.minutes,
        classifier_correlation=chosen.classifier_correlation,
    )
    trace = None
    try:
        trace = read_trace(there(chosen.data / "trace_azure2023_conv.csv.gz"))
    except NoData as absent:
        print(f"Azure trace: {absent}", file=sys.stderr)
    began = time.process_time()
    sizes = (500, 3000, 7) if chosen.quick else ()
    scales = calibrated(*sizes, proxy_correlation=chosen.proxy_correlation)
    per_seed = experiments(scales, size, trace, lambda said: print(f"  {said}", file=sys.stderr, flush=True))
    found = summary(per_seed)
    print("\n".join(lines(found, size.seeds)))
    print(f"{time.process_time() - began:.0f} s of CPU")
    write(document(found, per_seed, size, scales), chosen.json)


def document(
    found: dict[str, Any], per_seed: list[dict[str, Any]], size: Size, scales: Scales
) -> dict[str, Any]:
    """What is written as JSON."""
    assumed = {
        "topic_variance": world.TOPIC_VARIANCE,
        "classifier_correlation": size.classifier_correlation,
        "proxy_correlation": scales.proxy_correlation,
        "poor_answers": world.POOR_ANSWERS,
        "one_offs": world.ONE_OFFS,
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
