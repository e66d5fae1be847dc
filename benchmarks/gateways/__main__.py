"""Starts the gateways that are installed, in front of one mock, and compares them: `python -m benchmarks.gateways`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import uvloop

from benchmarks.gateways import table
from benchmarks.gateways.adapter import read_peer
from benchmarks.gateways.builtin import BUILT_IN
from benchmarks.gateways.contest import contest
from benchmarks.processes import NotReady
from loadtest.commands.options import make_plan, plan_options
from loadtest.errors import LoadError
from loadtest.plan import Target
from loadtest.report.files import write_json
from loadtest.report.text import make_console


@click.command("gateways")
@plan_options
@click.option(
    "--only", multiple=True, help="Only these peers: understudy, nginx, relay, litellm or an adapter's name."
)
@click.option(
    "--adapter",
    "adapters",
    type=click.Path(path_type=Path),
    multiple=True,
    help="YAML file of a further peer.",
)
@click.option(
    "--find", "places", multiple=True, metavar="NAME=PATH", help="Where a peer's program is, if not on PATH."
)
@click.option("--blocks", type=click.IntRange(1), default=4, show_default=True)
@click.option(
    "--saturate",
    type=click.IntRange(0),
    default=32,
    show_default=True,
    help="Closed-loop users; 0: leave it out.",
)
@click.option("--mock-ttft-ms", default="0", show_default=True, help="The mock's time to first token.")
@click.option("--mock-token-ms", default="0", show_default=True)
@click.option("--json", "json_path", type=click.Path(path_type=Path, dir_okay=False))
def command(
    only: tuple[str, ...],
    adapters: tuple[Path, ...],
    places: tuple[str, ...],
    blocks: int,
    saturate: int,
    mock_ttft_ms: str,
    mock_token_ms: str,
    json_path: Path | None,
    **given: Any,
) -> None:
    """Compare the gateways that are installed, each configured as its own documentation recommends.

    Every peer stands in front of the same mock; "direct" is the mock itself. Rounds alternate, --duration s each
    (default 4).
    """
    given["duration"] = given["duration"] or (None if given["trace"] else 4.0)
    given["model"] = given["model"] or "mock-small"
    console = make_console(stderr=True)
    try:
        peers = [*BUILT_IN, *(read_peer(path) for path in adapters)]
        for text in places:
            name, equals, path = text.partition("=")
            if not equals or name not in [peer.name for peer in peers]:
                raise click.UsageError(f"--find {text!r}: write NAME=PATH with the name of a peer")
            peers = [replace(peer, program=path) if peer.name == name else peer for peer in peers]
        if only:
            if unknown := set(only) - {peer.name for peer in peers} - {"direct"}:
                raise click.UsageError(
                    f"--only {', '.join(sorted(unknown))}: known are {', '.join(p.name for p in peers)}"
                )
            peers = [peer for peer in peers if peer.name in only]
        result = uvloop.run(
            contest(
                make_plan(Target("http://127.0.0.1", given["endpoint"]), given),
                peers,
                blocks=blocks,
                saturate=saturate,
                mock_options=("--ttft-ms", mock_ttft_ms, "--token-ms", mock_token_ms),
                slo=given["slo"],
                max_lateness_ms=given["max_lateness_ms"],
                say=lambda line: console.print(line, highlight=False, markup=False),
            )
        )
        print(table.text(result))
        if json_path:
            write_json(result, json_path)
    except (LoadError, NotReady) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or 'file'}: {error.strerror or error}") from None


if __name__ == "__main__":
    command(prog_name="python -m benchmarks.gateways")
