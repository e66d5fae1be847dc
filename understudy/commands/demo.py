"""`understudy demo`: a minute of simulated traffic through a real gateway, and what it saves.

Nothing heavy is imported before the first line is printed.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Literal

import click

_REAL_BASELINE = 12
"""A real model on a processor takes seconds for each."""
_REAL_FACTS = 1
"""The smallest world there is, of 140 facts: its questions come again."""


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="How long traffic is sent.")
@click.option("--rate", default=80.0, show_default=True, help="Requests per second.")
@click.option("--seed", default=7, show_default=True, help="Of the world, the traffic and the engines.")
@click.option(
    "--port", type=int, help="Where the gateway listens; 0 takes a free port  [8080 if it is free]."
)
@click.option(
    "--baseline",
    default=400,
    show_default=True,
    help="Requests sent again at the end, to each engine alone.",
)
@click.option(
    "--feedback",
    "feedback_share",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    help="Share of answers that are scored by POST /v1/feedback.",
)
@click.option(
    "--policy",
    type=click.Choice(["few_shot", "in_context"]),
    help="The one that learns; or that of `serve --small --large`  [in_context; few_shot with --real].",
)
@click.option(
    "--proof",
    type=click.Choice(["on", "floor", "off"]),
    help="on: the small engine answers only where comparisons proved it, as a gateway does by default, for which a minute is"
    " short; floor: as much as the quality guarantee allows, which needs in_context; off: by the policy alone"
    "  [floor; off with few_shot].",
)
@click.option("--drift", is_flag=True, help="The small engine turns bad half-way, and is caught.")
@click.option(
    "--admin",
    type=click.Choice(["on", "off"]),
    default="on",
    show_default=True,
    help="Whether to serve the admin pages, on port 8081 if it is free.",
)
@click.option(
    "--real",
    is_flag=True,
    help="Play it with two real models, --small and --large, which are given notes; one request after the other.",
)
@click.option(
    "--small",
    "small_url",
    envvar="SMALL",
    metavar="URL",
    help="Server of the model `small`; with /v1. Also SMALL.",
)
@click.option(
    "--large",
    "large_url",
    envvar="LARGE",
    metavar="URL",
    help="Server of the model `large`; with /v1. Also LARGE.",
)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the results here.")
@click.option("--no-wait", is_flag=True, help="Stop the gateway at the end instead of leaving it running.")
def demo(
    seconds: float,
    rate: float,
    seed: int,
    port: int | None,
    baseline: int,
    feedback_share: float,
    policy: Literal["few_shot", "in_context"] | None,
    proof: Literal["on", "floor", "off"] | None,
    drift: bool,
    admin: str,
    real: bool,
    small_url: str | None,
    large_url: str | None,
    json_path: Path | None,
    no_wait: bool,
) -> None:
    """Send simulated traffic through a gateway and show what it saves. No key, no GPU, no network.

    With --real two real models answer, from notes that go with each request. With the admin pages the gateway has two keys:
    the printed one, and one with limits, which sends a quarter of the traffic; with --admin off it has none, and takes any.
    At its end it writes try-it.sh and try_it.py into the current folder.
    """
    policy = policy or ("few_shot" if real else "in_context")
    if proof == "floor" and policy == "few_shot":
        raise click.UsageError("--proof floor needs --policy in_context: few_shot expects no quality")
    if real and drift:
        raise click.UsageError("--drift is of a simulated engine: it does not go with --real")
    if real and not (small_url and large_url):
        raise click.UsageError(
            "--real needs --small URL and --large URL; `make demo REAL=1` starts two servers"
        )
    if real:
        click.echo("A demo of Understudy with two real models on questions of an invented world. Loading ...")
    else:
        click.echo("A demo of Understudy on a simulated world: no key, no GPU, no network. Loading ...")
    try:
        import openai  # noqa: F401
        from rich.console import Console
    except ImportError as error:
        raise click.ClickException(
            f"the demo needs the package {error.name}: pip install 'understudy-gateway[demo]'"
        ) from None
    import asyncio
    from dataclasses import replace

    from simulation.demo.gateway_process import GatewayDidNotStart
    from simulation.demo.run import run
    from simulation.demo.screen import Screen
    from simulation.demo.settings import DemoSettings

    settings = DemoSettings(
        requests=max(1, round(seconds * rate)),
        rate_per_s=rate,
        seed=seed,
        port=_free_port(8080) if port is None else port,
        baseline=max(1, baseline),
        feedback_share=feedback_share,
        policy=policy,
        proof=proof or ("floor" if policy == "in_context" else "off"),
        drift=drift,
        admin_port=_free_port(8081) if admin == "on" else None,
    )
    if real:
        settings = replace(
            settings,
            small_url=small_url or "",
            large_url=large_url or "",
            rate_per_s=None,
            seconds=seconds,
            facts=_REAL_FACTS,
            baseline=min(settings.baseline, _REAL_BASELINE),
        )
    screen = Screen(Console(width=None if sys.stdout.isatty() else 110), settings)
    try:
        status = asyncio.run(run(settings, screen, results_file=json_path, stay=not no_wait))
    except GatewayDidNotStart as error:
        raise click.ClickException(str(error)) from None
    sys.exit(status)


def _free_port(wanted: int) -> int:
    """`wanted` if nobody listens on it; otherwise 0, for any free port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            return 0
    return wanted
