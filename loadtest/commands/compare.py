"""`understudy load compare A B [C...]`: alternating rounds, ratios with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from loadtest.commands.options import click_errors, make_plan, make_target, output_file, plan_options


@click.command("compare")
@click.argument("targets", nargs=-1, required=True, metavar="[NAME=]URL [NAME=]URL...")
@plan_options
@click.option(
    "--blocks", type=click.IntRange(1), default=6, show_default=True, help="Rounds of each endpoint."
)
@output_file("--json", help="Write the report as JSON.")
@output_file("--html", help="Write one page with charts.")
def command(
    targets: tuple[str, ...], blocks: int, json_path: Path | None, html_path: Path | None, **given: Any
) -> None:
    """Compare endpoints with the first one, in alternating short rounds (A B B A ...) of --duration s (default 5).

    Refuses to report where the load generator itself was the bottleneck (exit status 1).
    """
    from dataclasses import replace

    import uvloop

    from loadtest.compare import compare
    from loadtest.preflight import check, find_model
    from loadtest.report.comparison import comparison_page, print_comparison
    from loadtest.report.files import write_json, write_whole
    from loadtest.report.text import make_console
    from loadtest.running import round_runner

    if len(targets) < 2:
        raise click.UsageError("name at least two endpoints to compare")
    given["duration"] = given["duration"] or (None if given["trace"] else 5.0)
    named = [text.split("=", 1) if "=" in text.split("://", 1)[0] else ["", text] for text in targets]
    console = make_console(stderr=True)
    with click_errors():
        places = [make_target(url, given, name) for name, url in named]
        plan = find_model(make_plan(places[0], given))
        for place in places:
            check(replace(plan, target=place))
        result = uvloop.run(
            compare(
                plan,
                places,
                blocks,
                round_runner(given["slo"], given["prices"], given["max_lateness_ms"]),
                lambda line: console.print(line, highlight=False, markup=False),
            )
        )
        print_comparison(result, make_console())
        if json_path:
            write_json(result, json_path)
        if html_path:
            write_whole(html_path, comparison_page(result).encode())
    if result["interrupted"]:
        raise SystemExit(130)
