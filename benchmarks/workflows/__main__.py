"""What do workflows gain by their graph? `python -m benchmarks.workflows [--only baselines,depth] [--core 7b|13b|30b]
[--seeds 1,2,3] [--json FILE]`, or with `--real` or `--gpu`.

By default the engines are SIMULATED, in virtual time; the executor, the passes, the lines of components, the pipeline, the
and the placement are the gateway's own. Each figure is time without the graph over time with it, beside what Teola
(section 7) reports of real GPUs. Every constant stands in the output, with its source.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time

from benchmarks.options import options, write
from benchmarks.tables import markdown
from benchmarks.workflows.constants import CORES, SOURCES, Calibration
from benchmarks.workflows.figures import PARTS, Figure, Measured, Plan, Report


def constants(calibration: Calibration) -> str:
    """What everything is simulated with, and why."""
    figures = {name: value for name, value in calibration.as_json().items() if name != "sources"}
    lines = ["Engines are simulated (times in s, sizes in tokens):"]
    lines += [f"  {name}: {json.dumps(value)}" for name, value in figures.items()]
    lines.append("Where that comes from:")
    lines += [f"  {name}: {text}" for name, text in SOURCES.items()]
    return "\n".join(lines)


def table(figures: list[Figure]) -> str:
    """Figures side by side."""
    rows = [
        (
            one.what,
            shown(one, one.found),
            f"{shown(one, min(one.by_seed))} to {shown(one, max(one.by_seed))}" if one.by_seed else "",
            "" if one.asked is None else shown(one, one.asked),
            one.paper,
            {None: "", True: "yes", False: "NO"}[one.reached],
        )
        for one in figures
    ]
    return markdown(("", "found", "by seed", "asked", "paper", "reached"), rows)


def shown(figure: Figure, value: float) -> str:
    """A value of a figure, with its unit."""
    return f"{value:.2f}x" if figure.unit == "x" else f"{value:.2%}"


def simulated(arguments: argparse.Namespace) -> int:
    """In virtual time. 1 where an asked figure was not reached."""
    calibration = Calibration(core=arguments.core)
    seeds = tuple(int(seed) for seed in arguments.seeds.split(","))
    plan = Plan(calibration, seeds, arguments.requests)
    print(constants(calibration))
    report = Report(Measured(plan, lambda line: print(f"  … {line}", file=sys.stderr, flush=True)))
    began, result = time.process_time(), {}
    for part in arguments.only.split(","):
        figures = list(PARTS[part](report))
        print(
            f"\n{part}, seeds {arguments.seeds}, {plan.count} requests each\n\n{table(figures)}", flush=True
        )
        result[part] = [one.as_json() for one in figures]
    print(f"\n{time.process_time() - began:.0f} s of CPU")
    output = {
        "simulated": calibration.as_json(),
        "seeds": seeds,
        "requests": plan.count,
        "rates_per_s": report.measured.rates(),
        "figures": result,
    }
    write(output, arguments.json)
    return int(any(one["reached"] is False for figures in result.values() for one in figures))


def main() -> int:
    """Measure and print."""
    parser = options(__doc__, data=True)
    parser.add_argument("--only", metavar="PARTS", default=",".join(PARTS), help="of [%(default)s]")
    parser.add_argument("--core", choices=sorted(CORES), default="30b", help="the model that writes answers")
    parser.add_argument("--seeds", default="1,2,3", help="of arrivals and texts [%(default)s]")
    parser.add_argument(
        "--requests", type=int, default=60, metavar="N", help="of each measurement [%(default)s]"
    )
    parser.add_argument("--real", action="store_true", help="over real vLLM servers on this machine")
    parser.add_argument("--gpu", action="store_true", help="over vLLM on a GPU, with random weights")
    arguments = parser.parse_args()
    if unknown := set(arguments.only.split(",")) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    for name in ("real", "gpu"):
        if getattr(arguments, name):
            return int(importlib.import_module(f"benchmarks.workflows.{name}").main(arguments) or 0)
    return simulated(arguments)


if __name__ == "__main__":
    sys.exit(main())
