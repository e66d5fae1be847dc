"""`understudy export`: the bank as JSONL, everything needed to import it again elsewhere."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import click

from learning.bank.importing.rows import line_of
from understudy.commands.data_folder import data_option, store_in
from understudy.commands.tenant_option import tenant_named, tenant_option


@click.command()
@data_option()
@tenant_option("Whose examples; everybody's if this is not given.")
@click.option(
    "--output", "-o", default="-", help="File to write, gzipped if it ends in .gz; - is standard output."
)
@click.option(
    "--vectors/--no-vectors", default=True, show_default=True, help="Without, an import has to embed anew."
)
def export(data: Path, tenant: str | None, output: str, vectors: bool) -> None:
    """Write examples as JSON lines, in the order in which they came. Holds what people asked: keep it as the data folder."""
    written = 0
    with store_in(data) as store:
        tenants = [tenant_named(store.keys, tenant)] if tenant else sorted(store.examples.tenants())
        try:
            with _opened(output) as file, _bar(sum(map(store.examples.count, tenants))) as bar:
                for whose in tenants:
                    for row in store.examples.exported(whose):
                        file.write(line_of(row.example, row.embedded_text, row.vector if vectors else None))
                        written += 1
                        bar.update(1)
        except BrokenPipeError:
            sys.exit(141)
        except OSError as error:
            click.echo(f"understudy: {output}: {error}", err=True)
            sys.exit(2)
    click.echo(f"{written} examples of {len(tenants)} tenants", err=True)


def _bar(examples: int) -> Any:
    # Drawn anew now and then, and on a terminal only.
    return click.progressbar(
        length=examples,
        label="exporting",
        file=sys.stderr,
        update_min_steps=1000,
        hidden=not sys.stderr.isatty(),
    )


@contextmanager
def _opened(output: str) -> Iterator[BinaryIO]:
    if output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    # Written beside and moved: a file of this name is always a whole export.
    temporary = Path(output + ".part")
    temporary.touch(mode=0o600)
    with gzip.open(temporary, "wb", 6) if output.endswith(".gz") else temporary.open("wb") as file:
        yield cast(BinaryIO, file)
    temporary.replace(output)
