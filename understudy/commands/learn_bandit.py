"""`understudy learn bandit`: requests whose quality is known per engine, from a file, become a router to start with."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import click
import orjson

from learning.bank.importing.lines import BadFile, lines, opened
from learning.training.labelled_requests import BadLabel, Labelled, engines_by_quality, labelled
from understudy.commands.data_folder import data_option, store_in
from understudy.commands.example_settings import embedder_for, example_settings
from understudy.commands.giving_up import give_up
from understudy.commands.import_progress import Progress
from understudy.commands.tenant_option import tenant_named, tenant_option
from understudy.commands.training import end_with

_FEWEST = 20


@click.command("bandit")
@click.option("--from", "files", multiple=True, required=True, type=click.Path(), help="JSONL, also gzipped.")
@data_option()
@tenant_option("Whose it is to be; without it, the operator's, for all tenants.")
@click.option("--model", default="", help="The served model it is for; nothing for any.")
@click.option(
    "--engines", help="Small to large, comma-separated; without it, by their average quality in the file."
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="The gateway's configuration: its memory.examples says how requests are embedded.",
)
@click.option("--dry-run", is_flag=True, help="Train and report, publish nothing.")
def bandit(
    files: tuple[str, ...],
    data: Path,
    tenant: str | None,
    model: str,
    engines: str | None,
    config: Path | None,
    dry_run: bool,
) -> None:
    """Train a router on labels: {"messages": [...] or "prompt": "...", "quality": {"ENGINE": 0..1, ...}} per line.

    The last fifth of the lines is held out to check it, against the version in use if there is one. Engines are those of the
    gateway's configuration, by name. Running gateways take it into use within a second.
    """
    settings = example_settings(config)
    with store_in(data, create=True) as store:
        whose = tenant_named(store.keys, tenant) if tenant else ""
        requests, refused = _read(files)
        order = tuple(e.strip() for e in engines.split(",")) if engines else engines_by_quality(requests)
        if len(order) < 2 or len(requests) < _FEWEST:
            give_up(f"{len(requests)} usable lines about {len(order)} engines: {_FEWEST} about 2 are needed")
        click.echo(f"{len(requests)} requests; engines, small to large: {', '.join(order)}", err=True)
        from learning.training.bandit import NothingToLearn, TrainingKnobs, train
        from learning.training.labelled_requests import row
        from router.choosing.bandit import BanditMissing
        from router.choosing.bandit_vw import BanditSettings

        now_s = time.time()
        with embedder_for(data, settings) as embedder:
            rows = []
            with Progress(["embedding"]) as progress:
                progress.begin("embedding")
                for place, request in enumerate(requests):
                    try:
                        # Lines have no time: their order stands for it, a second apart, so that the last are held out.
                        at_s = now_s - (len(requests) - place)
                        rows.append(
                            row(
                                request,
                                order,
                                embedder.embed_blocking,
                                at_s=at_s,
                            )
                        )
                    except BadLabel as why:
                        refused[str(why)] += 1
                    progress.advanced(place + 1, len(requests))
        for reason, count in refused.most_common():
            click.echo(f"{count} lines refused: {reason}", err=True)
        active = store.artifacts.active("bandit", whose, model)
        try:
            trained = train(
                rows,
                settings=BanditSettings(dimensions=embedder.dimensions, embedding_version=embedder.version),
                knobs=TrainingKnobs(),
                incumbent=store.artifacts.read(active) if active else None,
            )
        except (NothingToLearn, BanditMissing) as error:
            give_up(str(error))
        for name, value in trained.metrics.items():
            click.echo(f"{name}: {value}")
        trained.metrics["labels"] = len(rows)
        slot = "bandit", whose, model
        end_with(store, trained, slot, active, dry_run=dry_run, learnt_from="from labels: ")


def _read(files: tuple[str, ...]) -> tuple[list[Labelled], Counter[str]]:
    found: list[Labelled] = []
    refused: Counter[str] = Counter()
    for path in files:
        try:
            with opened(path) as (file, _, _):
                for line in lines(file):
                    if line.text is None:
                        refused["longer than is read"] += 1
                        continue
                    try:
                        found.append(labelled(orjson.loads(line.text)))
                    except orjson.JSONDecodeError:
                        refused["not JSON"] += 1
                    except BadLabel as why:
                        refused[str(why)] += 1
        except (OSError, BadFile) as error:
            give_up(f"{path}: {error}")
    return found, refused
