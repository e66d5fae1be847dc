"""Operations on saved views: filters of the list of requests under a name, for all who may sign in."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

from pydantic import Field
from pydantic.dataclasses import dataclass

from admin.operations.operation import By, Outcome, operation
from admin.operations.people import listed
from admin.page import Asked, BadParameter, NotThere, Viewer
from admin.roles import Role
from admin.sources import Sources
from admin.summaries.requests import FILTERS, NOBODY, views, wanted_by
from store.people.saved_views import SavedView
from store.validating import CLOSED

Name = Annotated[str, Field(max_length=200)]
Filters = Annotated[str, Field(max_length=4000)]


@dataclass(frozen=True, slots=True, config=CLOSED)
class Every:
    """All of them."""


@dataclass(frozen=True, slots=True, config=CLOSED)
class NewView:
    """What is saved."""

    view: Name = Field(description="Its name.")
    filters: Filters = Field(
        description="As in the address of the list of requests, such as way=failed&within=day."
    )


@dataclass(frozen=True, slots=True, config=CLOSED)
class OneView:
    """Which view."""

    view: Name = Field(description="Its name.")


@operation("views/list", role=Role.VIEWER)
def list_views(sources: Sources, by: By, given: Every) -> Outcome:
    """List saved views of the list of requests."""
    return listed([*views(sources, reads_content=by.reads_content)], None)


@operation("views/save")
def save_view(sources: Sources, by: By, given: NewView) -> Outcome:
    """Save filters of the list of requests under a name, in place of the view of that name."""
    name, filters = given.view.strip(), _filters(sources, by, given.filters)
    view = SavedView(name, urlencode(filters), by.now_s, by.name)
    before = sources.store.saved_views.put(view)
    value = {"name": name, "filters": view.filters, "saved_at_s": by.now_s, "saved_by": by.name}
    old = {} if before is None else {"old": _for_audit(dict(parse_qsl(before.filters)))}
    detail = {"filters": old | {"new": _for_audit(filters)}}
    said, to = f"The view {name!r} is saved.", f"/requests?{view.filters}"
    return Outcome(said, name, detail, value, made=before is None, to=to)


@operation("views/delete")
def delete_view(sources: Sources, by: By, given: OneView) -> Outcome:
    """Delete a saved view."""
    if not sources.store.saved_views.remove(given.view):
        raise NotThere(f"There is no view {given.view[:60]!r}.")
    return Outcome(f"The view {given.view!r} is deleted.", given.view, value={"name": given.view})


def _filters(sources: Sources, by: By, sent: str) -> dict[str, str]:
    """The filters in their order, an end user by digest. Raises BadParameter for what the list would refuse."""
    given = dict(parse_qsl(sent))
    if unknown := given.keys() - set(FILTERS):
        raise BadParameter(
            f"filters has {sorted(unknown)[0][:60]!r}, which is no filter; {', '.join(FILTERS)} are right",
            "filters",
        )
    asked = Asked(Viewer(by.name, Role.OPERATOR), by.now_s, query=given)
    end_user = wanted_by(sources, asked).end_user
    if end_user == NOBODY:
        raise BadParameter("user is nobody whose requests are kept", "filters")
    given["user"] = end_user
    found = {name: value for name in FILTERS if (value := asked.text(name, longest=200))}
    if not found:
        raise BadParameter("filters is empty; choose at least one, such as way=failed", "filters")
    return found


def _for_audit(filters: dict[str, Any]) -> str:
    """Filters without words, which may be content."""
    return urlencode({name: value for name, value in filters.items() if name != "q"})
