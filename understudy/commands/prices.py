"""`understudy prices`: the list prices that `price: list` takes, and another list in their place."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import click

from understudy.commands.giving_up import give_up
from understudy.commands.tables import table
from understudy.settings.prices import FILE, BadPrices, PriceList, prices_file, read_prices

_COLUMNS = (
    *("provider", "model", "input_usd", "cached_input_usd", "cache_write_usd", "cache_write_1h_usd"),
    *("output_usd", "context_tokens", "max_output_tokens"),
)


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="The gateway's data folder, which may have a list of its own.",
)
@click.option(
    "--update",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Check this list and put it into the data folder; gateways take it at their next start or reload.",
)
@click.option("--as-file", is_flag=True, help="Print the file itself, to be changed and given to --update.")
def prices(data: Path | None, update: Path | None, as_file: bool) -> None:
    """List prices by provider and model, in US dollars per million tokens, with the day as of which they are known.

    Providers change their prices: compare with the sources named before you rely on them.
    """
    if update is not None and data is None:
        raise click.UsageError("--update needs --data DIR: the list is kept in the gateway's data folder")
    try:
        found = read_prices(update or prices_file(data))
    except BadPrices as error:
        give_up(str(error))
    if update is not None and data is not None:
        if found.as_of > _today():
            give_up(
                f"{update}: as_of is {found.as_of}, which is to come: the day that prices were looked up is right"
            )
        _put(update, data)
        click.echo(f"understudy: {data / FILE} is the price list now: {_dated(found)}", err=True)
    elif as_file:
        click.echo(prices_file(data).read_text(encoding="utf-8"), nl=False)
    else:
        _show(found, prices_file(data))


def _put(update: Path, data: Path) -> None:
    """Replaces the list in one step: a gateway that starts meanwhile reads the old one or the new one."""
    if not data.is_dir():
        give_up(f"{data} is no folder: --data is memory.data_dir of the gateway")
    try:
        new = data / f"{FILE}.new"
        new.write_bytes(update.read_bytes())
        new.replace(data / FILE)
    except OSError as error:
        give_up(f"cannot write {data / FILE}: {error.strerror or error}")


def _show(found: PriceList, path: Path) -> None:
    click.echo(f"{path}: {_dated(found)}. US dollars per million tokens.")
    rows = [
        {"provider": name, "model": model, **listed.model_dump()}
        for name, provider in found.providers.items()
        for model, listed in provider.models.items()
    ]
    for row in rows:
        row |= {column: f"{row[column]:g}" for column in _COLUMNS[2:7] if row[column] is not None}
    for line in table(rows, _COLUMNS):
        click.echo(line)
    for name, provider in found.providers.items():
        click.echo(f"{name}: {provider.source}")


def _dated(found: PriceList) -> str:
    return f"as known on {found.as_of}, {(_today() - found.as_of).days} days ago"


def _today() -> date:
    return datetime.now(UTC).date()
