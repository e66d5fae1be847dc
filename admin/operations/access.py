"""Operations on who may use the admin pages and the admin API: accounts and tokens."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from admin.operations.operation import By, Outcome, operation
from admin.page import ActionFailed, NotThere
from admin.passwords import hashed, new_password
from admin.sources import Sources
from store.people.limits import told
from store.people.operators import LastOperator
from store.people.tokens import NoSuchToken
from store.validating import CLOSED

RoleName = Literal["viewer", "viewer-content", "operator"]


@dataclass(frozen=True, slots=True, config=CLOSED)
class Password:
    """Whose password, and which."""

    user: str = Field(default="operator", description="Whose; made if there is none.")
    role: RoleName | None = Field(
        default=None,
        description="viewer sees figures, viewer-content texts too, operator changes things"
        " [operator for a new account].",
    )
    password: str | None = Field(default=None, repr=False)


@dataclass(frozen=True, slots=True, config=CLOSED)
class OneAccount:
    """Whose account."""

    user: str


@dataclass(frozen=True, slots=True, config=CLOSED)
class NewToken:
    """What a token is made of."""

    name: str = Field(default="program", description="Whose; the audit log names it.")
    role: RoleName = Field(default="viewer", description="viewer reads, operator changes keys and tenants.")
    expires_at_s: float | None = None


@dataclass(frozen=True, slots=True, config=CLOSED)
class OneToken:
    """Which token."""

    id: str


@operation("admin/password", of_pages=("password",))
def set_password(sources: Sources, by: By, given: Password) -> Outcome:
    """Set a new password, and print it, this once, unless it was given. The account's sessions end."""
    chosen = given.password if given.password is not None else new_password()
    digest = hashed(chosen)
    before = sources.store.operators.get(given.user)
    try:
        made = sources.store.operators.put(given.user, given.role, digest)
    except LastOperator as error:
        raise ActionFailed(f"{error}.") from error
    old = {} if before is None else {"old": before.role}
    return Outcome(
        f"The password of {made.name!r}, role {made.role}. Only a hash of it is stored.",
        made.name,
        {"role": {**old, "new": made.role}},
        secret=chosen if given.password is None else "",
    )


@operation("admin/remove", arguments=("user",))
def remove_account(sources: Sources, by: By, given: OneAccount) -> Outcome:
    """Delete an account; its sessions end. The only operator's stays."""
    try:
        removed = sources.store.operators.remove(given.user)
    except LastOperator as error:
        raise ActionFailed(f"{error}.") from error
    if not removed:
        raise NotThere(f"There is no account {given.user[:64]!r}.")
    return Outcome(f"The account {given.user} is deleted; its sessions have ended.", given.user)


@operation("admin/token/create", of_pages=("expires_at_s",))
def create_token(sources: Sources, by: By, given: NewToken) -> Outcome:
    """Make a token and print it, this once."""
    made, secret = sources.store.admin_tokens.create(given.name, given.role, given.expires_at_s)
    return Outcome(
        f"Token {made.id}, role {made.role}. It is not shown again: only a keyed hash of it is stored.",
        made.id,
        {"name": made.name, "role": made.role, "expires_at": told(made.expires_at_s)},
        secret=secret,
    )


@operation("admin/token/revoke", arguments=("id",))
def revoke_token(sources: Sources, by: By, given: OneToken) -> Outcome:
    """Revoke a token at once."""
    try:
        sources.store.admin_tokens.revoke(given.id)
    except NoSuchToken as error:
        raise NotThere(f"{error}; `understudy admin token list` shows them.") from error
    return Outcome(f"Token {given.id} is revoked.", given.id)
