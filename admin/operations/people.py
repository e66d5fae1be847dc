"""What operations on keys and tenants have in common: how a store's refusal is told, and a record that changed meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from admin.operations.operation import By, Outcome
from admin.page import ActionFailed, NotThere
from admin.terms_form import version_of
from store.people.described import changes, described
from store.people.keys import KeptInConfiguration, NoSuchKey, SecretTaken
from store.people.tenants import NoSuchTenantRecord, TenantExists
from store.records import Key, Tenant
from store.validating import CLOSED, right

Record = TypeVar("Record", Key, Tenant)
MOST_PER_PAGE = 1000


@dataclass(frozen=True, slots=True, config=CLOSED)
class Paging:
    """Which part of a list."""

    limit: Annotated[int, Field(ge=1, le=MOST_PER_PAGE), right(f"1 to {MOST_PER_PAGE}")] = Field(
        default=100, description=f"How many at most: 1 to {MOST_PER_PAGE}."
    )
    after: str = Field(default="", description="The `next` of the page before.")


@dataclass(frozen=True, slots=True, config=CLOSED)
class OneKey:
    """Which key."""

    id: str = Field(title="KEY_ID")


@dataclass(frozen=True, slots=True, config=CLOSED)
class OneTenant:
    """Which tenant, by its name."""

    name: str


@contextmanager
def refusals() -> Iterator[None]:
    """Tells what the store of keys and tenants refuses as pages, the admin API and commands do."""
    try:
        yield
    except NoSuchKey as error:
        raise NotThere(f"{error}; `understudy keys list` shows them.") from error
    except NoSuchTenantRecord as error:
        raise NotThere(f"{error}; `understudy tenants list` shows them.") from error
    except (KeptInConfiguration, SecretTaken, TenantExists) as error:
        raise ActionFailed(f"{error}.") from error


def unless_changed(by: By, change: Callable[[Record], Record]) -> Callable[[Record], Record]:
    """For `edit` of a store: the change, unless the record is another than `by` has read. Raises ActionFailed."""

    def checked(record: Record) -> Record:
        refuse_if_changed(by, record)
        return change(record)

    return checked


def refuse_if_changed(by: By, record: Key | Tenant | None) -> None:
    """Raises ActionFailed where the record is another than that whose version `by` has read."""
    if by.version not in ("", version_of(record)):
        raise ActionFailed(
            "Somebody else has changed this meanwhile. Nothing was changed: compare what you sent with what is in force, and"
            " send it again to put yours in its place.",
            "version",
        )


def changed(before: Key | Tenant, after: Key | Tenant) -> Outcome:
    """The outcome of a change."""
    detail = changes(before, after)
    said = f"Saved: {', '.join(sorted(detail))}. Workers follow within a second."
    return Outcome(said if detail else "It was so already.", after.id, detail, described(after))


def edited(
    edit: Callable[[str, Callable[[Record], Record]], tuple[Record, Record]],
    named: str,
    by: By,
    change: Callable[[Record], Record],
) -> Outcome:
    """Have a store change the record of this name. Raises ActionFailed, NotThere."""
    with refusals():
        return changed(*edit(named, unless_changed(by, change)))


def listed(rows: list[Mapping[str, Any]], more: str | None) -> Outcome:
    """The outcome of a list. `more`: the `after` of the next page; None on the last."""
    return Outcome("", value={"data": rows, "next": more})
