"""How rows come into a table: said with names, of which each database makes its own SQL. Knows no table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, eq=False)
class Insert:
    """Inserts rows. All of it becomes SQL: it is a constant of the product, made once.

    `Database.append` and `Database.add` write rows by it in bulk; `sql` is for one row, by `execute` or `executemany`.
    """

    table: str
    columns: str
    """Their names, with a comma and a space between."""
    key: str
    """The columns that tell one row from another, likewise."""
    where_there: str = "NOTHING"
    """What is done where there is a row of this key: nothing, or `UPDATE SET …`, which knows the new row as `excluded`."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(self.columns.split(", "))

    @cached_property
    def into(self) -> str:
        """How the statement begins."""
        return f"INSERT INTO {self.table} ({self.columns})"

    @cached_property
    def on_conflict(self) -> str:
        """How it ends."""
        return f" ON CONFLICT ({self.key}) DO {self.where_there}"

    @cached_property
    def sql(self) -> str:
        """The statement for one row, with a `?` for each column."""
        return self.of_rows(1)

    def of_rows(self, count: int) -> str:
        """The statement for so many rows, with a `?` for each of their columns."""
        marks = f"({', '.join('?' * len(self.names))})"
        return f"{self.into} VALUES {', '.join([marks] * count)}{self.on_conflict}"


def adding(table: str, key: str, amounts: str) -> Insert:
    """An Insert that adds to the amounts where the key is there. `amounts`: names of columns, with a comma between."""
    sums = ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in amounts.split(", "))
    return Insert(table, f"{key}, {amounts}", key, f"UPDATE SET {sums}")


def replacing(table: str, columns: str, key: str, *, also: str = "", kept: str = "") -> Insert:
    """An Insert that takes the new row's values where the key is there.

    `also`: further assignments; `kept`: columns that stay as they are. Names have a comma and a space between.
    """
    fixed = {*key.split(", "), *kept.split(", ")}
    values = [f"{name} = excluded.{name}" for name in columns.split(", ") if name not in fixed]
    return Insert(table, columns, key, "UPDATE SET " + ", ".join([*values, also] if also else values))
