"""`understudy import`: past requests and answers, from files of several kinds, into the bank."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path

import click

from learning.bank.contributor import EndUsers
from learning.bank.importing.formats import FORMATS
from learning.bank.importing.importer import ImportCounts, Importer, NobodysLine, Options
from learning.bank.importing.lines import BadFile
from store.records import Kind
from understudy.commands.auditing import note
from understudy.commands.data_folder import data_option, store_in
from understudy.commands.example_settings import embedder_for, example_settings
from understudy.commands.giving_up import give_up
from understudy.commands.import_progress import Progress
from understudy.commands.tenant_option import tenant_named, tenant_of_client, tenant_option
from understudy.setup.examples import admission


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path())
@data_option()
@tenant_option("Whose examples they become; our own exports go where they came from unless this is given.")
@click.option(
    "--client-key",
    metavar="VARIABLE",
    help="Instead of --tenant: the environment variable that holds the api_key a client sends.",
)
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
    client_key: str | None,
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
    if tenant and client_key:
        raise click.UsageError("say whose they become once: by --tenant or by --client-key")
    settings = example_settings(config)
    with (
        # Before the store: see understudy.setup.embedder.
        embedder_for(data, settings) if embed else nullcontext() as embedder,
        store_in(data, create=True) as store,
    ):
        named = tenant_named(store.keys, tenant) if tenant else None
        if client_key:
            named = tenant_of_client(store, os.environ.get(client_key, ""), client_key)
        options = Options(named, format, kind, again)
        with Progress(files) as progress:
            importer = Importer(
                store.examples.restore_many,
                store.examples.imports,
                EndUsers(store.secret, apart=settings.partition == "user"),
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
            except NobodysLine:
                give_up(_WHOSE_BY_KEY if store.keys.any_configured() else _WHOSE)
            except (OSError, BadFile) as error:
                give_up(f"{path}: {error}")
            finally:
                importer.close()
                _summary(importer.counts, named)
                note(store, "import", named or "", {"files": len(files), "added": importer.counts.added})
    tally = importer.counts
    if not tally.usable or (strict and (tally.bad or tally.refused)):
        sys.exit(1)


_WHOSE = (
    "these lines do not say whose they are. No gateway key was made yet, so a client's tenant follows from the api_key it "
    "sends: put that into an environment variable and name it, as in --client-key OPENAI_API_KEY. Or make a key "
    "(`understudy keys create`) and name its tenant with --tenant. Where memory.anonymous is on, --tenant default is "
    "whoever sends none."
)
_WHOSE_BY_KEY = "these lines do not say whose they are: --tenant NAME does, as in `understudy keys create`"


def _summary(tally: ImportCounts, tenant: str | None) -> None:
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
    click.echo("; ".join(parts) + (f"; tenant id:{tenant}" if tenant else ""))
