"""`understudy export`: the bank as JSONL, everything needed to import it again elsewhere; or collections of texts."""

from __future__ import annotations

import base64
import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import click
import orjson

from learning.bank.importing.rows import line_of
from store import Store
from understudy.commands.data_folder import data_option, store_in
from understudy.commands.tenant_option import tenant_named, tenant_option

_PAGE = 500


@click.command()
@data_option()
@tenant_option("Whose examples; everybody's if this is not given.")
@click.option(
    "--output", "-o", default="-", help="File to write, gzipped if it ends in .gz; - is standard output."
)
@click.option(
    "--vectors/--no-vectors", default=True, show_default=True, help="Without, an import has to embed anew."
)
@click.option(
    "--collections", is_flag=True, help="The texts of workflows' collections instead of the examples."
)
def export(data: Path, tenant: str | None, output: str, vectors: bool, collections: bool) -> None:
    """Write examples as JSON lines, in the order in which they came. Holds what people asked: keep it as the data folder."""
    written = 0
    with store_in(data) as store:
        whose = tenant_named(store.keys, tenant) if tenant else None
        tenants, total, lines = (_of_collections if collections else _of_bank)(store, whose, vectors)
        try:
            with _opened(output) as file, _bar(total) as bar:
                for line in lines:
                    file.write(line)
                    written += 1
                    bar.update(1)
        except BrokenPipeError:
            sys.exit(141)
        except OSError as error:
            click.echo(f"understudy: {output}: {error}", err=True)
            sys.exit(2)
    click.echo(f"{written} {'texts' if collections else 'examples'} of {tenants} tenants", err=True)


def _of_bank(store: Store, tenant: str | None, vectors: bool) -> tuple[int, int, Iterator[bytes]]:
    tenants = sorted(store.examples.tenants()) if tenant is None else [tenant]
    lines = (
        line_of(row.example, row.embedded_text, row.vector if vectors else None)
        for whose in tenants
        for row in store.examples.exported(whose)
    )
    return len(tenants), sum(map(store.examples.count, tenants)), lines


def _of_collections(store: Store, tenant: str | None, vectors: bool) -> tuple[int, int, Iterator[bytes]]:
    found = store.runs.assets.collections(tenant)

    def lines() -> Iterator[bytes]:
        for each in found:
            after_seq = 0
            while page := store.runs.assets.texts(each.tenant, each.name, after_seq, _PAGE):
                after_seq = page[-1].seq
                for one in page:
                    vector = base64.b64encode(one.vector).decode() if vectors else None
                    told = {
                        "tenant": each.tenant,
                        "collection": each.name,
                        "text": one.text.encode("utf-8", "replace").decode(),
                        "embedder": one.identity,
                        "vector": vector,
                    }
                    yield orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE)

    return len({each.tenant for each in found}), sum(each.texts for each in found), lines()


def _bar(rows: int) -> Any:
    # Drawn anew now and then, and on a terminal only.
    return click.progressbar(
        length=rows,
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
