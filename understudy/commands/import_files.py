"""`understudy import`: past requests and answers, from files of several kinds, into the bank."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import click

from gateway.keys import DEFAULT_TENANT
from learning.bank.importing.formats import FORMATS
from learning.bank.importing.importer import ImportCounts, Importer, Options
from learning.bank.importing.lines import BadFile
from store.records import Kind
from understudy.commands.data_folder import data_option, store_in
from understudy.commands.example_settings import embedder_for, example_settings
from understudy.commands.giving_up import give_up
from understudy.commands.import_progress import Progress
from understudy.commands.tenant_option import tenant_named, tenant_option
from understudy.setup.examples import admission


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path())
@data_option()
@tenant_option("Whose examples they become; our own exports go where they came from unless this is given.")
@click.option(
    "--format", type=click.Choice(FORMATS), default="auto", show_default=True, help="What wrote the files."
)
@click.option(
    "--kind",
    type=click.Choice(["observed", "demonstration"]),
    help="Overrides what the format implies: fine-tuning files hold demonstrations, which are never evicted.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="The gateway's configuration: its memory.examples says what is admitted and how it is embedded.",
)
@click.option("--embed", is_flag=True, help="Embed now. Otherwise the gateway does, in the background.")
@click.option("--again", is_flag=True, help="Read files anew that were read before.")
@click.option("--strict", is_flag=True, help="End with status 1 if any line was refused.")
def import_(
    files: tuple[str, ...],
    data: Path,
    tenant: str | None,
    format: str,
    kind: Kind | None,
    config: Path | None,
    embed: bool,
    again: bool,
    strict: bool,
) -> None:
    """Read FILES (JSONL, also gzipped; - is standard input) into the bank of examples.

    Known: our own export, OpenAI's fine-tuning files and batch outputs (name the batch's input file first), LiteLLM's logs.
    Interrupted, it goes on where it was; what is there already is not added again.
    """
    settings = example_settings(config)
    with (
        # Before the store: see understudy.setup.embedder.
        embedder_for(data, settings) if embed else nullcontext() as embedder,
        store_in(data, create=True) as store,
    ):
        named = tenant_named(store.keys, tenant) if tenant else None
        # With keys nobody can be the default tenant any more: what went there would never be found.
        options = Options(named, "" if store.keys.any_configured() else DEFAULT_TENANT, format, kind, again)
        with Progress(files) as progress:
            importer = Importer(
                store.examples.restore_many,
                store.examples.imports,
                store.secret,
                admission(settings),
                options,
                progress,
                embedder.embed_blocking if embedder else None,
                embedder.version if embedder else "",
            )
            try:
                for path in files:
                    progress.begin(path)
                    importer.read(path)
            except (OSError, BadFile) as error:
                give_up(f"{path}: {error}")
            finally:
                importer.close()
                _summary(importer.counts)
    tally = importer.counts
    if not tally.usable or (strict and (tally.bad or tally.refused)):
        sys.exit(1)


def _summary(tally: ImportCounts) -> None:
    refused = ", ".join(f"{count} {reason}" for reason, count in tally.refused.most_common())
    parts = [
        f"{tally.added} added",
        f"{tally.known} known already",
        *(
            [f"{tally.skipped} lines done by an earlier run (--again reads them anew)"]
            if tally.skipped
            else []
        ),
        *([f"{tally.refused.total()} not admitted ({refused})"] if refused else []),
        *([f"{tally.bad} not understood"] if tally.bad else []),
    ]
    click.echo("; ".join(parts))
