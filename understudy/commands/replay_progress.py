"""Shows how a replay goes: a bar on a terminal, a line now and then elsewhere. Always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from learning.replay.run import Progress, Watch

_LINE_EVERY_S = 5.0


@contextmanager
def shown() -> Iterator[Watch]:
    """What to hand to a run as its `progress`."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar
    except ImportError:
        yield lines()
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[spent]}"),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console, transient=False) as bar:
        task = bar.add_task("replay", total=None, spent="")

        async def show(progress: Progress) -> None:
            bar.update(
                task,
                description=f"replay {progress.run_id}, {progress.state}",
                completed=progress.done,
                total=progress.steps,
                spent=money(progress),
            )

        yield show


def lines(every_s: float = _LINE_EVERY_S) -> Watch:
    """A line when the state changes, and every so often while it goes on."""
    last: tuple[str, float] = ("", 0.0)

    async def show(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if progress.state == last[0] and now - last[1] < every_s:
            return
        last = (progress.state, now)
        click.echo(
            f"replay {progress.run_id}: {progress.state}, {progress.done} of {progress.steps} steps, {money(progress)}",
            file=sys.stderr,
        )

    return show


def money(progress: Progress) -> str:
    """What was spent so far."""
    spent = progress.spent
    return f"{spent.usd:.4f} dollars, {spent.tokens} tokens"
