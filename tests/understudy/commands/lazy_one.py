"""A command for test_lazy_group, which sees whether it was imported."""

import click


@click.command()
def say() -> None:
    click.echo("one")
