"""`understudy load sweep`: the highest rate that meets an SLO, or the frontier of a dial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from loadtest.commands.options import click_errors, make_plan, make_target, output_file, plan_options
from loadtest.commands.types import Parsed


def _dial(text: str) -> Any:
    from loadtest.sweep import parse_dial

    return parse_dial(text)


@click.command("sweep")
@click.option("--base-url", required=True, help="Such as http://127.0.0.1:8000 or https://host/v1.")
@plan_options
@click.option(
    "--max-rate",
    type=click.FloatRange(0.0, min_open=True),
    default=10_000.0,
    show_default=True,
    help="Highest rate that is tried.",
)
@click.option(
    "--need",
    "need_share",
    type=click.FloatRange(0.0, 1.0),
    default=0.99,
    show_default=True,
    help="Share to meet it.",
)
@click.option(
    "--precision",
    type=click.FloatRange(0.001),
    default=0.1,
    show_default=True,
    help="Stop within this, relative.",
)
@click.option(
    "--dial",
    type=Parsed("dial", _dial),
    help="header:NAME=v1,v2,... or body:FIELD=v1,v2,...: walk it instead.",
)
@output_file("--json", help="Write the report as JSON.")
@output_file("--html", help="Write one page with charts.")
def command(
    base_url: str,
    max_rate: float,
    need_share: float,
    precision: float,
    dial: Any,
    json_path: Path | None,
    html_path: Path | None,
    **given: Any,
) -> None:
    """Find the highest rate that meets --slo, beginning at --rate, with probes of --duration s (default 10).

    With --dial: one run per setting at --rate, and which settings are worth having.
    """
    import uvloop

    from loadtest.preflight import check, find_model
    from loadtest.report.files import write_json, write_whole
    from loadtest.report.sweeps import print_sweep, sweep_page
    from loadtest.report.text import make_console
    from loadtest.running import round_runner
    from loadtest.sweep import find_knee, walk_dial

    if dial is None and given["slo"] is None:
        raise click.UsageError("a sweep needs an SLO to look for, such as --slo 'ttft<=500ms,latency<=5s'")
    if given["trace"] or given["closed_users"]:
        raise click.UsageError("a sweep sets the rate itself: it takes no --trace and no --closed")
    given["duration"] = given["duration"] or 10.0
    console = make_console(stderr=True)

    def report_line(line: str) -> None:
        console.print(line, highlight=False, markup=False)

    with click_errors():
        plan = find_model(make_plan(make_target(base_url, given), given))
        check(plan)
        probe = round_runner(given["slo"], given["prices"], given["max_lateness_ms"])
        if dial is not None:
            work = walk_dial(plan, dial, probe, report_line)
        else:
            work = find_knee(
                plan,
                probe,
                start_rate=given["rate"],
                max_rate=max_rate,
                need_share=need_share,
                precision=precision,
                report_line=report_line,
            )
        result = {"target": plan.target.label, "slo": str(given["slo"] or ""), **uvloop.run(work)}
        print_sweep(result, make_console())
        if json_path:
            write_json(result, json_path)
        if html_path:
            write_whole(html_path, sweep_page(result).encode())
