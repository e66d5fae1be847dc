"""`understudy store`: the schema of a PostgreSQL database, and moving what is remembered to it and back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click

from store import Store
from store.errors import StoreError
from understudy.commands.backup import backup, restore
from understudy.commands.giving_up import give_up
from understudy.commands.reports import now_and_then

_NEEDS = "PostgreSQL needs: pip install 'understudy-gateway[postgres]'"


@click.group()
def store() -> None:
    """The database behind a gateway: backing it up, its schema in PostgreSQL, and moving between SQLite and PostgreSQL."""


store.add_command(backup)
store.add_command(restore)


@store.command()
@click.option(
    "--url",
    required=True,
    envvar="UNDERSTUDY_DATABASE_URL",
    show_envvar=True,
    help="postgresql://OWNER@HOST/DATABASE: as the role that owns the tables, or will.",
)
@click.option(
    "--grant",
    "roles",
    multiple=True,
    metavar="ROLE",
    help="A role that may then read and write rows, and nothing more: the gateway's. It must exist. May be repeated.",
)
@click.option(
    "--vectors",
    is_flag=True,
    help="Also what memory.index pgvector or auto needs: the extension `vector`, its table, and graphs of large tenants.",
)
def migrate(url: str, roles: tuple[str, ...], *, vectors: bool) -> None:
    """Bring a PostgreSQL database to this release's schema, all of it or nothing. Of several at once one does the work.

    The release before goes on working on it. Status 2, with the reason, and nothing changed: another program's database, a
    later release's, one from before schema 112, a standby, missing rights, PostgreSQL below 15.
    """
    with _giving_up("nothing was migrated"):
        from store.moving.opening import migrated

        applied = migrated(url, roles, vectors=vectors)
    for name in applied:
        click.echo(f"applied {name}")
    if not applied:
        click.echo("the schema is this release's already")
    for role in roles:
        click.echo(f"{role} may read and write rows")


@store.command()
@click.option(
    "--from", "source", required=True, metavar="DIR|URL", help="Data folder, or postgresql:// URL, to read."
)
@click.option(
    "--to",
    "target",
    required=True,
    metavar="URL|DIR",
    help="postgresql:// URL of an empty database with the schema, or an empty folder.",
)
@click.option(
    "--final",
    is_flag=True,
    help="No gateway runs any more: take what was changed or deleted meanwhile, and make the copy one that can be served.",
)
@click.option(
    "--verify",
    is_flag=True,
    help="Compare both, row by row, and show counts and checksums. Without --final nothing is copied.",
)
def copy(source: str, target: str, final: bool, verify: bool) -> None:
    """Copy everything that is remembered from SQLite to PostgreSQL, or back, while the source is in use. Run again, it goes
    on where it stood. Nobody serves the copy before --final.

    Exit status 1: --verify found a difference.
    """
    with _giving_up("the copy is not finished"):
        from store.moving.opening import is_url

        folder, url = (Path(target), source) if is_url(source) else (Path(source), target)
        if final and not (folder / "secret").is_file():
            raise FileNotFoundError(
                f"{folder} has no file `secret`, without which no key works: copy it there from a gateway's data folder"
            )
        if final or not verify:
            _copy(source, target, final=final)
        if final:
            _share_files(folder, url, to_url=not is_url(source))
        equal = _verify(source, target) if verify else True
    if not equal:
        raise SystemExit(1)


def _copy(source: str, target: str, *, final: bool) -> None:
    from store.moving.move import copy as copy_rows
    from store.moving.opening import opened

    began_s = time.monotonic()
    with opened(source, target, into=True) as (read, written, tables):
        copied = copy_rows(read, written, tables, final=final, told=_progress())
        took = f"{copied.rows:,} rows read in {time.monotonic() - began_s:.1f} s"
        click.echo(f"{took}: {copied.written:,} written, {copied.deleted:,} deleted in {written.name}")
        if final:
            click.echo(f"{written.name} can be served now; give every gateway the same file `secret`")
        else:
            click.echo("stop the gateways, then run this again with --final")


def _share_files(folder: Path, url: str, *, to_url: bool) -> None:
    """Versions of what was learnt are files in a folder, and rows where replicas have a folder each."""
    with closing(Store.open(folder, database_url=url)) as opened:
        number = opened.artifacts.share() if to_url else opened.artifacts.fetch()
    click.echo(f"{number} files of what was learnt are {'in the database' if to_url else f'in {folder}'}")


def _verify(source: str, target: str) -> bool:
    from store.moving.move import compare
    from store.moving.opening import opened

    equal = True
    with opened(source, target, into=False) as (read, written, tables):
        for one in compare(read, written, tables, told=_progress()):
            equal = equal and one.equal
            said = one.checksum if one.equal else f"DIFFERENT: {one.checksum} and {one.checksum_of_target}"
            rows = (
                f"{one.rows:,}" if one.rows == one.rows_of_target else f"{one.rows:,}/{one.rows_of_target:,}"
            )
            if one.rows or not one.equal:
                click.echo(f"{one.table:24} {rows:>14} {said}")
    click.echo("both hold the same" if equal else "they differ: was one of them in use?")
    return equal


def _progress() -> Callable[[str, int, int], None]:
    """A line now and then on standard error."""
    say = now_and_then()
    return lambda table, done, total: say(f"{table}: {done:,} of {total:,} rows")


@contextmanager
def _giving_up(what: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("psycopg", "psycopg_pool"):
            raise
        give_up(_NEEDS)
    except (OSError, ValueError, TimeoutError, StoreError) as error:
        give_up(f"{what}: {error}")
