"""Opening a data folder for a command that works beside, or without, a running gateway."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from store import Store
from store.errors import StoreError
from understudy.commands.giving_up import give_up
from understudy.commands.tenant_option import NoSuchTenant

DATABASE_URL = "UNDERSTUDY_DATABASE_URL"
"""The variable of the environment with memory.database_url: in an argument every user of the machine could read it."""
F = TypeVar("F", bound=Callable[..., Any])


def data_option(*, required: bool = True) -> Callable[[F], F]:
    """`--data DIR`."""
    return click.option(
        "--data",
        required=required,
        type=click.Path(path_type=Path),
        help="The gateway's data folder (memory.data_dir). A gateway may be running on it. With PostgreSQL, give"
        f" memory.database_url in ${DATABASE_URL}, too.",
    )


@contextmanager
def store_in(data: Path, *, create: bool = False) -> Iterator[Store]:
    """The open store, without indexes. What keeps a command from working ends the process with status 2, saying why."""
    try:
        url = os.environ.get(DATABASE_URL, "")
        there = Store.is_in(data) or bool(url)
        if not create and not there:
            raise FileNotFoundError(f"{data} holds no understudy.db: it is no gateway's data folder")
        new = not there
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        store = Store.open(data, database_url=url)
        if new:
            click.echo(f"{data} is a new data folder: set memory.data_dir to it", err=True)
    except (OSError, StoreError) as error:
        give_up(f"cannot use the data folder: {error}")
    try:
        yield store
    except NoSuchTenant as error:
        give_up(str(error))
    except (StoreError, TimeoutError) as error:
        give_up(f"the store failed: {error or type(error).__name__}")
    finally:
        store.close()
