"""`understudy export`: the bank as JSONL, everything needed to import it again elsewhere; collections of texts; the log of
requests."""

from __future__ import annotations

import base64
import gzip
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import click
import orjson

from learning.bank.importing.rows import line_of
from store import Store
from understudy.commands.data_folder import data_option, store_in
from understudy.commands.exported_requests import ParquetMissing, rows, write_lines, write_parquet
from understudy.commands.since import moment
from understudy.commands.tenant_option import tenant_named, tenant_option

_PAGE = 500


@click.command()
@click.argument("what", type=click.Choice(["examples", "collections", "requests"]), default="examples")
@data_option()
@tenant_option("Whose; everybody's if this is not given.")
@click.option(
    "--output", "-o", default="-", help="File to write, gzipped if it ends in .gz; - is standard output."
)
@click.option(
    "--vectors/--no-vectors", default=True, show_default=True, help="Without, an import has to embed anew."
)
@click.option("--collections", is_flag=True, help="The same as WHAT collections.")
@click.option("--since", help="Only requests since then: 7d, 24h, or a date such as 2025-01-31.")
@click.option("--until", help="Only requests before then.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "parquet"]),
    help="Of requests; parquet where the file ends so.",
)
@click.option(
    "--content",
    is_flag=True,
    help="Requests with their texts, as far as those are kept (memory.request_texts), private data replaced.",
)
def export(
    what: str,
    data: Path,
    tenant: str | None,
    output: str,
    vectors: bool,
    collections: bool,
    since: str | None,
    until: str | None,
    form: str | None,
    content: bool,
) -> None:
    """Write examples, collections of texts, or the log of requests, in the order in which they came.

    Examples and collections hold what people asked: keep the file as the data folder. Requests are rows without texts,
    unless --content asks for them.
    """
    what = "collections" if collections else what
    if what != "requests" and (since or until or form or content):
        raise click.UsageError("--since, --until, --format and --content are of `understudy export requests`")
    with store_in(data) as store:
        whose = tenant_named(store.keys, tenant) if tenant else None
        try:
            if what == "requests":
                now_s = time.time()
                began_s, ended_s = moment("--since", since, now_s), moment("--until", until, now_s)
                _requests(store, whose, output, form, content, began_s or 0.0, ended_s or math.inf)
            else:
                _lines(store, whose, output, vectors, what)
        except BrokenPipeError:
            sys.exit(141)
        except (OSError, ParquetMissing) as error:
            click.echo(f"understudy: {output}: {error}", err=True)
            sys.exit(2)


def _lines(store: Store, whose: str | None, output: str, vectors: bool, what: str) -> None:
    written = 0
    tenants, total, lines = (_of_collections if what == "collections" else _of_bank)(store, whose, vectors)
    with _opened(output) as file, _bar(total) as bar:
        for line in lines:
            file.write(line)
            written += 1
            bar.update(1)
    click.echo(f"{written} {'texts' if what == 'collections' else what} of {tenants} tenants", err=True)


def _requests(
    store: Store,
    whose: str | None,
    output: str,
    form: str | None,
    content: bool,
    since_s: float,
    until_s: float,
) -> None:
    pages = rows(store, whose, since_s=since_s, until_s=until_s, content=content)
    if form == "parquet" or (form is None and output.endswith(".parquet")):
        if output == "-":
            raise click.UsageError("Parquet is no stream: name a file with --output")
        temporary = _part_of(output)
        written = write_parquet(pages, temporary, content=content)
        temporary.replace(output)
    else:
        with _opened(output) as file:
            written = write_lines(pages, file)
    click.echo(f"{written} requests", err=True)


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
    temporary = _part_of(output)
    with gzip.open(temporary, "wb", 6) if output.endswith(".gz") else temporary.open("wb") as file:
        yield cast(BinaryIO, file)
    temporary.replace(output)


def _part_of(output: str) -> Path:
    """Where a file is written before it has its name: nobody else may read it."""
    temporary = Path(output + ".part")
    temporary.unlink(missing_ok=True)
    temporary.touch(mode=0o600)
    return temporary
