"""`understudy load apps`: applications whose calls feed each other, carried out by the client or by the gateway."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadtest.commands.options import HEADER, click_errors, make_target, output_file

if TYPE_CHECKING:
    from loadtest.applications.shapes import Application
    from loadtest.plan import Target

_shown = partial(click.option, show_default=True)
_positive = click.FloatRange(0.0, min_open=True)


@click.command("apps")
@click.option("--base-url", required=True, help="Such as http://127.0.0.1:8000 or https://host/v1.")
@click.option(
    "--app", type=click.Choice(["chain", "map-reduce", "roles"]), required=True, help="Which application."
)
@click.option(
    "--orchestrate", type=click.Choice(["client", "server"]), required=True, help="Who carries it out."
)
@_shown("--rtt-ms", type=click.FloatRange(0.0), default=250.0, help="Round trip that is waited out, ± 20 %.")
@_shown("--applications", type=click.IntRange(1), default=10, help="How many.")
@_shown("--at-once", type=click.IntRange(1), default=1, help="At a time.")
@_shown("--width", type=click.IntRange(1, 200), default=8, help="Steps of a chain, chunks, or files.")
@_shown("--chunk-tokens", type=click.IntRange(1), default=1024, help="Of chain and map-reduce.")
@_shown("--answer-tokens", type=click.IntRange(1), default=50, help="max_tokens of chain and map-reduce.")
@click.option("--model", default="", help="[default: the first that /v1/models lists]")
@click.option(
    "--header", "headers", type=HEADER, multiple=True, help="'name: value', sent with every request."
)
@click.option(
    "--api-key-env", help="Environment variable that holds the key.  [default: OPENAI_API_KEY, if set]"
)
@click.option("--insecure", is_flag=True, help="Do not verify TLS certificates.")
@_shown("--timeout", "timeout_s", type=_positive, default=600.0, help="Give a request up after, s.")
@_shown("--seed", default=1, help="Of the texts and the round trips.")
@output_file("--json", "Write the report as JSON.")
def command(base_url: str, json_path: Path | None, **given: Any) -> None:
    """Play applications whose calls feed each other.

    `--orchestrate client` asks any OpenAI-compatible endpoint call by call; `server` hands each application over by POST
    /v1/runs. The same seed gives the same applications: where the engine is deterministic, the digests of the results are
    equal. Exit status: 0, or 1 where an application failed.
    """
    import uvloop

    from loadtest.applications.summary import told
    from loadtest.report.files import write_json

    with click_errors():
        report = uvloop.run(_report(make_target(base_url, {**given, "endpoint": "chat"}), given))
        click.echo(told(report))
        if json_path:
            write_json(report, json_path)
            click.echo(f"wrote {json_path}")
    if report["failed"]:
        raise SystemExit(1)


def applications(given: dict[str, Any]) -> list[Application]:
    """The applications that the options describe."""
    from loadtest.applications.shapes import chain, map_reduce, roles

    width, lengths = given["width"], (given["chunk_tokens"], given["answer_tokens"])
    names = [f"{given['seed']}/{number}" for number in range(given["applications"])]
    if given["app"] == "roles":
        return [roles(name, width) for name in names]
    shape = chain if given["app"] == "chain" else map_reduce
    return [shape(name, width, *lengths) for name in names]


async def _report(target: Target, given: dict[str, Any]) -> dict[str, Any]:
    import aiohttp

    from loadtest.applications.playing import Player, first_model, play_all
    from loadtest.applications.summary import summary
    from loadtest.clock import now

    headers = {
        "content-type": "application/json",
        "user-agent": "understudy-loadtest",
        **dict(target.headers),
    }
    timeout = aiohttp.ClientTimeout(total=given["timeout_s"])
    # As many connections as there are calls at a time; a certificate is verified unless that was switched off.
    connector = aiohttp.TCPConnector(limit=0, ssl=target.verify_tls)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, connector=connector) as session:
        model = given["model"] or await first_model(session, target)
        player = Player(session, target, model, given["rtt_ms"] / 1e3, given["seed"])
        by_server, began_s = given["orchestrate"] == "server", now()
        played = await play_all(player, applications(given), by_server=by_server, at_once=given["at_once"])
    names = ("app", "orchestrate", "rtt_ms", "width", "chunk_tokens", "answer_tokens", "at_once", "seed")
    asked = {name: given[name] for name in names}
    return {"target": target.base_url, "model": model, **asked, **summary(played, took_s=now() - began_s)}
