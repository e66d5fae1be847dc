"""`understudy learn map`: draws the maps of examples that the admin pages show, off-line."""

from __future__ import annotations

from pathlib import Path

import click

from understudy.commands.data_folder import data_option, store_in
from understudy.commands.tenant_option import tenant_named, tenant_option


@click.command(name="map")
@data_option()
@tenant_option("Whose map; every tenant's with examples if it is not given.")
def draw_map(data: Path, tenant: str | None) -> None:
    """Draw each tenant's examples on a plane, for the admin pages. Some seconds per thousand."""
    from admin.map_maker import draw

    with store_in(data) as store:
        whose = [tenant_named(store.keys, tenant)] if tenant else list(store.examples.tenants())
        for each in whose:
            click.echo(f"{each}: drawing {store.examples.count(each)} examples", err=True)
            click.echo(f"{each}: {draw(store, each)} examples on the map")
    if not whose:
        click.echo("there are no examples to draw")
