"""`understudy store backup` and `understudy store restore`: a data folder as one file, and back."""

from __future__ import annotations

from pathlib import Path

import click

from store.errors import StoreError
from understudy.archive import BadArchive, Manifest, back_up, check
from understudy.archive import restore as restored
from understudy.commands.data_folder import data_option
from understudy.commands.giving_up import give_up

_ARCHIVE = click.argument("archive", type=click.Path(path_type=Path, dir_okay=False))


@click.command()
@data_option()
@_ARCHIVE
def backup(data: Path, archive: Path) -> None:
    """Write everything that cannot be rebuilt into one new file, while the gateway runs: the database as it is now, the
    secret, and what was learnt, with checksums.

    A name that ends in .gz or .tgz is compressed. It holds what people asked and were told: protect it like the data folder.
    """
    try:
        manifest = back_up(data, archive)
    except (OSError, StoreError) as error:
        give_up(f"no backup was made: {error}")
    click.echo(f"{archive}: {_told(manifest)}")


@click.command()
@_ARCHIVE
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="The folder to make, which must be empty or not there. Without it the backup is only checked.",
)
def restore(archive: Path, data: Path | None) -> None:
    """Make a data folder of a backup, all of it or nothing. Start a gateway on it: it rebuilds its indexes first."""
    try:
        manifest = restored(archive, data) if data is not None else check(archive, archive.absolute().parent)
    except (BadArchive, OSError) as error:
        give_up(f"nothing was restored: {error}")
    where = f"restored into {data}" if data is not None else "whole"
    click.echo(f"{archive} is {where}: {_told(manifest)}" if data is None else f"{where}: {_told(manifest)}")


def _told(manifest: Manifest) -> str:
    size = f"{len(manifest.files)} files of {manifest.size_bytes / 2**20:.1f} MiB"
    return f"{size}, written by release {manifest.release} at {manifest.created_at}"
