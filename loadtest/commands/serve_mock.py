"""`understudy load serve-mock`: a fast mock upstream, so that everything else runs without any model."""

from __future__ import annotations

from typing import Any

import click

from loadtest.commands.types import Parsed
from loadtest.distributions import parse_distribution
from loadtest.mock.faults import parse_window

_DISTRIBUTION = Parsed("dist", parse_distribution)
_WINDOW = Parsed("window", parse_window)


@click.command("serve-mock")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=0, show_default=True, help="0: any free port; the URL is printed.")
@click.option("--ttft-ms", type=_DISTRIBUTION, default="0", show_default=True, help="Time to first token.")
@click.option(
    "--token-ms", type=_DISTRIBUTION, default="0", show_default=True, help="Time per further token."
)
@click.option("--tokens", type=_DISTRIBUTION, default="128", show_default=True, help="Answer length.")
@click.option(
    "--capacity",
    type=click.IntRange(0),
    default=0,
    help="Requests served at once; others queue. 0: no limit.",
)
@click.option("--max-queue", type=click.IntRange(0), default=0, help="Longer queues get 429. 0: no limit.")
@click.option(
    "--fault", "faults", type=_WINDOW, multiple=True, help="START+LENGTH:FAULT[@SHARE], such as 5+2:stall."
)
@click.option("--model", "models", multiple=True, help="Model names to list.")
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--max-seconds", type=click.FloatRange(0.0, min_open=True), help="Stop by itself after this long."
)
def command(
    host: str,
    port: int,
    max_seconds: float | None,
    faults: tuple[Any, ...],
    models: tuple[str, ...],
    **pace: Any,
) -> None:
    """Serve a fast mock upstream on HOST:PORT.

    A request steers its own answer with x-mock-ttft-ms, x-mock-token-ms, x-mock-tokens, x-mock-dial and x-mock-fault
    (http=CODE, reset, stall=S, hang, cut=N, slow=F, error, garbage, html). GET /mock/counters says what was seen,
    GET /mock/truth the delays that were meant, POST /mock/reset forgets both.
    """
    from loadtest.mock.server import run
    from loadtest.mock.settings import MockSettings

    settings = MockSettings(windows=faults, models=models or MockSettings.models, **pace)
    try:
        run(settings, host, port, max_seconds, lambda url: click.echo(f"mock upstream ready at {url}"))
    except OSError as error:
        raise click.ClickException(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
