"""Copies the first argument to the second in small pages, and prints where it is. Its test kills it."""

from __future__ import annotations

import sys

from store.moving.move import copy
from store.moving.opening import opened


def told(table: str, done: int, total: int) -> None:
    """A line for each page."""
    print(table, done, flush=True)


if __name__ == "__main__":
    with opened(sys.argv[1], sys.argv[2], into=True) as (source, target, tables):
        copy(source, target, tables, final=False, told=told, page_rows=32)
