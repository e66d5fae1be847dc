"""`understudy load run`: sends load to an endpoint, shows progress and reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from loadtest.commands.options import click_errors, make_plan, make_target, output_file, plan_options


@click.command("run")
@click.option("--base-url", required=True, help="Such as http://127.0.0.1:8000 or https://host/v1.")
@plan_options
@output_file("--json", "Write the report as JSON.")
@output_file("--csv", "Write one line per request.")
@output_file("--html", "Write one page with charts.")
@click.option("--preflight/--no-preflight", default=True, show_default=True, help="Ask once before the load.")
@click.option("--quiet", is_flag=True, help="No live view.")
def command(
    base_url: str,
    json_path: Path | None,
    csv_path: Path | None,
    html_path: Path | None,
    preflight: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Offer load to an OpenAI-compatible endpoint and report.

    Open loop unless --closed is given: requests are sent when they are due, whatever the endpoint does, and timed from
    when they were due. Exit status: 0, or 130 after Ctrl-C (the report is still written), or 1.
    """
    from contextlib import ExitStack

    import uvloop

    from loadtest.preflight import check, find_model
    from loadtest.report.files import RequestLog, write_html, write_json
    from loadtest.report.text import make_console, print_report
    from loadtest.running import run_plan

    console = make_console(stderr=True)
    with click_errors():
        plan = find_model(make_plan(make_target(base_url, given), given))
        if preflight:
            check(plan)
        with ExitStack() as stack:
            log = stack.enter_context(RequestLog(csv_path)) if csv_path else None
            report = uvloop.run(
                run_plan(
                    plan,
                    slo=given["slo"],
                    prices=given["prices"],
                    console=console,
                    quiet=quiet,
                    max_lateness_ms=given["max_lateness_ms"],
                    each=log.add if log else None,
                )
            )
        print_report(report, make_console())
        if json_path:
            write_json(report, json_path)
        if html_path:
            write_html(report, html_path)
    for path in (json_path, csv_path, html_path):
        if path:
            click.echo(f"wrote {path}")
    if report["interrupted"]:
        raise SystemExit(130)
