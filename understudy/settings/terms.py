"""What settings of keys and of tenants have in common: limits, and when they end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, PlainSerializer

from store.people.limits import Flag, Limits, Moment, Partition, Terms, names_of
from store.validating import fields_of, what_differs
from understudy.settings.group import Settings

Told = Annotated[Limits, PlainSerializer(what_differs)]
"""Limits that are printed without what is as by default."""


def _said(name: str) -> Any:
    """The field of the model of terms, with its default and description."""
    field = fields_of(Terms)[name]
    said = field.description or ""
    if isinstance(field.default, Limits):
        said = f"{said.rstrip('.')}: {{{', '.join(names_of(Limits))}}}; see docs/how-to/keys-and-tenants.md."
    return Field(field.default, description=said)


class TermsSettings(Settings):
    """What may be said of a key and of a tenant alike: see store.people.limits."""

    limits: Told = _said("limits")
    each_user: Told = _said("each_user")
    expires_at: Moment | None = _said("expires_at_s")
    partition: Partition | None = _said("partition")
    users_required: Flag | None = _said("users_required")

    def terms(self) -> Terms:
        """As the store keeps them."""
        return Terms(
            limits=self.limits,
            each_user=self.each_user,
            expires_at_s=self.expires_at,
            partition=self.partition,
            users_required=self.users_required,
        )


def check_names(what: str, names: Mapping[str, object]) -> None:
    """Raises ValueError for a name that the store would refuse."""
    from store.people.keys import check_name, check_tenant_name

    for name in names:
        check_name(what, name)
        if what == "tenant name":
            check_tenant_name(name)
