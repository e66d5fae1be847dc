"""Filters of the list of requests that an operator gave a name, for everybody who may sign in to the admin pages."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from store.database import COMMITTED_WITHIN_S, Connection, Database
from store.inserting import replacing
from store.people.keys import check_name

MOST_VIEWS = 100
_HELD = "saved_views"
_SELECT = "SELECT name, filters, saved_at_s, saved_by FROM saved_views"
_PUT = replacing("saved_views", "name, filters, saved_at_s, saved_by", key="name")


@dataclass(frozen=True, slots=True)
class SavedView:
    """Filters under a name."""

    name: str
    filters: str
    """As in the query of the page's address."""
    saved_at_s: float
    saved_by: str


class SavedViews:
    """Keeps saved views. What writes waits for the commit."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def list(self) -> list[SavedView]:
        """Every view by name."""
        return [SavedView(*row) for row in self._db.read().execute(_SELECT + " ORDER BY name").fetchall()]

    def put(self, view: SavedView) -> SavedView | None:
        """Save a view in place of the one of that name, which is given back.

        Raises ValueError for a name that people could not read, and for one view more than MOST_VIEWS.
        """
        check_name("name", view.name)

        def write(connection: Connection) -> SavedView | None:
            self._db.hold(connection, _HELD)
            views = {row[0]: SavedView(*row) for row in connection.execute(_SELECT).fetchall()}
            if view.name not in views and len(views) >= MOST_VIEWS:
                raise ValueError(f"there are {MOST_VIEWS} views, which is the most: delete one first")
            connection.execute(_PUT.sql, astuple(view))
            return views.get(view.name)

        return self._db.write(write).result(COMMITTED_WITHIN_S)

    def remove(self, name: str) -> bool:
        """Delete a view; False if there was none."""

        def write(connection: Connection) -> bool:
            return connection.execute("DELETE FROM saved_views WHERE name = ?", (name,)).rowcount == 1

        return self._db.write(write).result(COMMITTED_WITHIN_S)
