"""What do applications gain when the gateway knows them? `python -m benchmarks.applications [--only steps,mixed]
[--json FILE]`.

Over real sockets (`steps`): what a step costs beside a plain call, and a run beside its client's own orchestration.

In all other parts the engines are SIMULATED, in virtual time (benchmarks.batching); the executor, the pipeline, placement
and the line are the gateway's own. Each figure is time without the gateway over time with it, beside what Parrot (OSDI 2024)
reports of real GPUs. Without it: the client carries every answer to the next call, 200 to 300 ms away, over a least-queue
balancer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict

from benchmarks.applications.figures import PARTS, Era, Figure
from benchmarks.applications.inferred import of_inferred
from benchmarks.applications.over_sockets import of_steps
from benchmarks.applications.row import Row
from benchmarks.applications.row import table as rows_shown
from benchmarks.applications.service import CAP_TOKENS, SPEEDS
from benchmarks.applications.team import of_team
from benchmarks.options import options, write
from benchmarks.tables import markdown

SOCKETS: dict[str, Callable[[], Iterator[Row]]] = {
    "steps": of_steps,
    "team": of_team,
    "inferred": of_inferred,
}
"""Parts that start a gateway and engines, or need none."""
EVERY = (*SOCKETS, *PARTS)


def constants() -> str:
    """What the engines are simulated with, in words."""
    lines = ["Engines are simulated; a step takes a + b x KV tokens + c x prompt tokens:"]
    lines += [
        f"  {name}: a {1e3 * speed.step_s:g} ms, b {1e6 * speed.kv_token_s:g} us, c {1e6 * speed.prefill_token_s:g} us, "
        f"KV {speed.kv_tokens:,} tokens"
        for name, speed in SPEEDS.items()
    ]
    lines.append(
        f"Baselines of 2024: no prefix cache, {CAP_TOKENS:,} tokens in flight at most (latency-centric) or no cap "
        "(throughput-centric), first come first served, least queue. Of today: a prefix cache, no cap."
    )
    return "\n".join(lines)


def table(figures: list[Figure]) -> str:
    """The figures of one era."""
    rows = [
        (
            one.what,
            f"{one.found:.2f}x",
            "" if one.promised is None else f"{one.promised:.2f}x",
            f"[{one.paper}x]" if one.paper[:1].isdigit() else one.paper and f"[{one.paper}]",
            "" if one.promised is None else "yes" if one.reached else "NO",
        )
        for one in figures
    ]
    return markdown(("", "found", "promised", "paper", "reached"), rows)


def main() -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--only", metavar="PARTS", default=",".join(EVERY), help="of [%(default)s]")
    parser.add_argument("--engines", choices=(*SPEEDS, "both"), default="both")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    if unknown := set(parts) - set(EVERY):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    began, over_sockets = time.process_time(), {}
    for part in filter(SOCKETS.__contains__, parts):
        rows = list(SOCKETS[part]())
        print(f"\n{part}, over sockets\n\n{rows_shown(rows)}")
        over_sockets[part] = [row.as_json() for row in rows]
    simulated, result = [part for part in parts if part in PARTS], {}
    if simulated:
        print(constants())
        for name in SPEEDS if arguments.engines == "both" else (arguments.engines,):
            figures = [figure for part in simulated for figure in PARTS[part](Era(name, arguments.seed))]
            print(f"\nEngines of {name}, seed {arguments.seed}\n\n{table(figures)}")
            result[name] = [one.as_json() for one in figures]
    print(f"\n{time.process_time() - began:.0f} s of CPU")
    speeds = {name: asdict(speed) for name, speed in SPEEDS.items()}
    found = {"simulated": speeds, "seed": arguments.seed, "figures": result, "over_sockets": over_sockets}
    write(found, arguments.json)


if __name__ == "__main__":
    main()
