"""`understudy demo`: a minute of simulated traffic through a real gateway, and what it saved.

A child process serves, the official OpenAI SDK asks, the simulated world grades; here these are put in order.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import click

from simulation.demo.admin_access import account, pages
from simulation.demo.client import Audience
from simulation.demo.settings import (
    LARGE,
    SMALL,
    GatewayDidNotStart,
    Running,
    Stage,
    demo_config,
    memory_folder,
    running_gateway,
)
from simulation.demo.results import Results, Tally, summary
from simulation.stream import Ask, Stream
from simulation.world import World, seeded

if TYPE_CHECKING:
    from simulation.demo.screen import Screen

INTERRUPTED = 130
"""Exit status after Ctrl-C before the results, as shells have it."""


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="How long traffic is played.")
@click.option("--rate", default=80.0, show_default=True, help="Requests per second.")
@click.option("--seed", default=7, show_default=True, help="Of the world, the traffic and the engines.")
@click.option(
    "--port", type=int, help="Where the gateway listens; 0 takes a free port  [8080 if it is free]."
)
@click.option(
    "--baseline",
    default=400,
    show_default=True,
    help="Requests asked again at the end, of each engine alone.",
)
@click.option(
    "--feedback",
    "feedback_share",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Share of answers that are scored, and learnt from; 0 follows the few_shot rule throughout.",
)
@click.option(
    "--admin",
    type=click.Choice(["on", "off"]),
    default="on",
    show_default=True,
    help="Whether to serve the admin pages, on port 8081 if it is free.",
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
    admin: str,
    json_path: Path | None,
    no_wait: bool,
) -> None:
    """Play simulated traffic at a gateway and show what it saves. No key, no GPU, no network."""
    try:
        import openai  # noqa: F401
        from rich.console import Console

        from simulation.demo.screen import Screen
    except ImportError as error:
        raise click.ClickException(
            f"the demo needs the package {error.name}: pip install 'understudy-gateway[demo]'"
        ) from None
    stage = Stage(
        requests=max(1, round(seconds * rate)),
        rate_per_s=rate,
        seed=seed,
        port=_free_port(8080) if port is None else port,
        baseline=max(1, baseline),
        feedback_share=feedback_share,
        admin_port=_free_port(8081) if admin == "on" else None,
    )
    screen = Screen(Console(width=None if sys.stdout.isatty() else 110), stage)
    try:
        sys.exit(asyncio.run(_until_interrupted(stage, screen, json_path, wait=not no_wait)))
    except GatewayDidNotStart as error:
        raise click.ClickException(str(error)) from None


async def _until_interrupted(stage: Stage, screen: Screen, json_path: Path | None, *, wait: bool) -> int:
    me = asyncio.current_task()
    assert me is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, me.cancel)
    finished = False
    try:
        with tempfile.TemporaryDirectory(prefix="understudy-demo-") as folder:
            password = (
                None
                if stage.admin_port is None
                else await asyncio.to_thread(account, memory_folder(Path(folder)))
            )
            async with running_gateway(demo_config(stage, Path(folder)), Path(folder)) as gateway:
                watched = None if password is None else await pages(gateway, password)
                if watched is not None:
                    screen.pages(watched)
                results = await perform(stage, gateway, screen)
                screen.results(results)
                if json_path is not None:
                    _write(json_path, results)
                finished = True
                if wait:
                    screen.next_steps(gateway.url, _a_question(stage), watched)
                    await asyncio.Event().wait()
    except asyncio.CancelledError:
        screen.say("\nStopped.")
    return 0 if finished else INTERRUPTED


async def perform(stage: Stage, gateway: Running, screen: Screen) -> Results:
    """Play the traffic of `stage` at a ready gateway, then measure the baselines. Raises what the gateway's replies lack."""
    from openai import AsyncOpenAI

    world = World(stage.seed, stage.facts)
    asks = list(Stream(world, stage.requests, seed=stage.seed))
    screen.say(
        f"Playing {len(asks)} requests about an invented world at {gateway.url}/v1 "
        f"({'one by one' if stage.sequential else f'{stage.rate_per_s:g} per second'}, seed {stage.seed}) ..."
    )
    tally = Tally()
    async with (
        AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="demo", max_retries=0, timeout=60) as client,
        aiohttp.ClientSession() as http,
    ):
        audience = Audience(client, world, stage)
        with screen.showing(tally):
            await _watched(audience, asks, tally, screen, gateway, http)
        bypassed = await gateway.bypassed(http)
        return await _results(stage, audience, asks, tally, screen, bypassed)


async def _watched(
    audience: Audience,
    asks: Sequence[Ask],
    tally: Tally,
    screen: Screen,
    gateway: Running,
    http: aiohttp.ClientSession,
) -> None:
    playing = True

    async def watch() -> None:
        while playing:
            screen.refresh(tally)
            await asyncio.sleep(0.25)

    async def play() -> None:
        nonlocal playing
        try:
            await audience.play(asks, tally, lambda: gateway.settled(http))
        finally:
            playing = False

    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        group.create_task(play())


async def _results(
    stage: Stage, audience: Audience, asks: Sequence[Ask], tally: Tally, screen: Screen, bypassed: int
) -> Results:
    rng = seeded("baseline", stage.seed)
    sample = rng.sample(list(asks), min(stage.baseline, len(asks)))
    offloaded = sorted(p.number for p in tally.of("offloaded"))
    again = [asks[n] for n in rng.sample(offloaded, min(stage.baseline, len(offloaded)))]
    screen.say(
        f"Asking each engine by itself: {len(sample)} of the same requests, and {len(again)} of the offloaded ..."
    )
    large, small, without = Tally(), Tally(), Tally()
    await audience.ask_again(sample, LARGE, large)
    await audience.ask_again(sample, SMALL, small)
    await audience.ask_again(again, SMALL, without)
    failures = [f for t in (tally, large, small, without) for f in t.failures]
    for text in sorted(set(failures))[:5]:
        screen.say(f"failed: {text}")
    return Results(
        whole=summary(tally.played),
        hits=summary(tally.of("hit")),
        offloaded=summary(tally.of("offloaded")),
        large=summary(tally.of("large")),
        failed=len(failures),
        bypassed=bypassed,
        always_large=summary(large.played),
        small_alone=summary(small.played),
        offloaded_without_examples=summary(without.played),
    )


def _write(path: Path, results: Results) -> None:
    path.write_text(json.dumps(results.as_json(), indent=2) + "\n", encoding="utf-8")


def _free_port(wanted: int) -> int:
    """`wanted` where nobody listens on it; otherwise 0, for any."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            return 0
    return wanted


def _a_question(stage: Stage) -> str:
    fact = World(stage.seed, stage.facts).facts[0]
    return fact.relation.forms[0].format(e=fact.entity)
