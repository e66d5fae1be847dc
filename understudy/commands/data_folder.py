"""Opening a data folder for a command that works beside, or without, a running gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from store import Store
from store.errors import StoreError
from understudy.commands.giving_up import give_up
from understudy.commands.tenant_option import NoSuchTenant

F = TypeVar("F", bound=Callable[..., Any])


def data_option() -> Callable[[F], F]:
    """`--data DIR`."""
    return click.option(
        "--data",
        required=True,
        type=click.Path(path_type=Path),
        help="The gateway's data folder (memory.data_dir). A gateway may be running on it.",
    )


@contextmanager
def store_in(data: Path, *, create: bool = False) -> Iterator[Store]:
    """The open store, without indexes. What keeps a command from working ends the process with status 2, saying why."""
    try:
        if not create and not Store.is_in(data):
            raise FileNotFoundError(f"{data} holds no understudy.db: it is no gateway's data folder")
        new = not Store.is_in(data)
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        store = Store.open(data)
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
