"""Accounts of these pages: who may sign in, with what role, and where they are signed in; the last operator stays."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from admin.page import ActionFailed, Asked, BadParameter, Done, NotThere, Summary
from admin.passwords import hashed, matches, new_password
from admin.roles import Role
from admin.sources import Sources
from store.people.operators import NO_PASSWORD, ROLES, AccountChanged, AdminUser, LastOperator, NoSuchUser

_MOST_SESSIONS = 500


def accounts(sources: Sources, asked: Asked) -> Summary:
    """Every account with its open sessions. No password, and nothing that follows from one."""
    sessions: defaultdict[str, list[Summary]] = defaultdict(list)
    for one in sources.sessions.open_ones()[:_MOST_SESSIONS]:
        sessions[one.user].append(
            {"id": one.id, "user": one.user, "created_at_s": one.created_at_s, "seen_at_s": one.seen_at_s}
        )
    users = sources.store.operators.list()
    return {
        "roles": [{"name": role.value, "meaning": _MEANINGS[role]} for role in Role],
        "accounts": [
            {
                "name": user.name,
                "role": user.role,
                "is_you": user.name == asked.viewer.name,
                "signs_in_by": _signs_in_by(user),
                "created_at_s": user.created_at_s,
                "changed_at_s": user.changed_at_s,
                "sessions": len(sessions[user.name]),
                "seen_at_s": max((one["seen_at_s"] for one in sessions[user.name]), default=None),
            }
            for user in users
        ],
        "operators": sum(user.role == Role.OPERATOR.value for user in users),
        "sessions": [one for user in users for one in sessions[user.name]],
    }


def add_account(sources: Sources, asked: Asked) -> Done:
    """Makes an account. Form fields: `name`, `role`, and `password`; without one it is drawn, and shown this once."""
    name, role = asked.text("name", longest=64), asked.choice("role", ROLES, ROLES[0])
    password = asked.query.get("password", "")
    chosen = password or new_password()
    try:
        made = sources.store.operators.put(name, role, _hashed(chosen), new=True)
    except ValueError as error:
        raise BadParameter(f"{error}.", "name") from error
    return _with_password(
        f"The account {made.name} is made.", made.name, chosen, password, {"role": made.role}
    )


def set_password(sources: Sources, asked: Asked) -> Done:
    """Gives an account another password, which ends its sessions. Form fields: `user`, `version` as the page gave it, and
    `password`, else it is drawn."""
    user, password = _user(sources, asked), asked.query.get("password", "")
    if user == asked.viewer.name and not password:
        raise BadParameter(
            "Your sessions end with it, so choose it yourself: a drawn one could not be shown.", "password"
        )
    chosen = password or new_password()
    try:
        sources.store.operators.put(user, None, _hashed(chosen), as_of_s=_version(asked))
    except AccountChanged as error:
        raise _changed(error) from error
    return _with_password(
        f"{user} has another password; its sessions have ended.", user, chosen, password, {}
    )


def set_role(sources: Sources, asked: Asked) -> Done:
    """Gives an account another role, at once. Form fields: `user`, `role`, and `version` as the page gave it."""
    user, role = _user(sources, asked), asked.choice("role", ROLES, "")
    try:
        before, after = sources.store.operators.set_role(user, role, as_of_s=_version(asked))
    except AccountChanged as error:
        raise _changed(error) from error
    except (LastOperator, NoSuchUser) as error:
        raise ActionFailed(f"{error}.", "role") from error
    said = f"{user} is {after} now." if before != after else "It was so already."
    return Done(said, target=user, detail={"role": {"old": before, "new": after}})


def remove_account(sources: Sources, asked: Asked) -> Done:
    """Deletes an account; its sessions end. Form field: `user`."""
    user = _user(sources, asked)
    try:
        sources.store.operators.remove(user)
    except LastOperator as error:
        raise ActionFailed(f"{error}.") from error
    return Done(f"The account {user} is deleted; its sessions have ended.", target=user)


def end_sessions(sources: Sources, asked: Asked) -> Done:
    """Signs an account out: from one session where `session` names it, else everywhere. Form field: `user`."""
    user, session = _user(sources, asked), asked.text("session", longest=64)
    if not session:
        ended = sources.sessions.end_all(user)
        return Done(
            f"{user} is signed out everywhere: {ended} sessions have ended.",
            target=user,
            detail={"ended": ended},
        )
    if not sources.sessions.end_one(user, session):
        raise ActionFailed("That session has ended already.")
    return Done(f"That session of {user} has ended.", target=user, detail={"session": session})


def own_account(sources: Sources, asked: Asked) -> Summary:
    """Whoever is signed in: name, role and open sessions."""
    name = asked.viewer.name
    account = sources.store.operators.get(name)
    if account is None:
        raise NotThere("This account is deleted.")
    return {
        "name": name,
        "role": account.role,
        "meaning": _MEANINGS[Role(account.role)],
        "signs_in_by": _signs_in_by(account),
        "sessions": [
            {"id": one.id, "created_at_s": one.created_at_s, "seen_at_s": one.seen_at_s}
            for one in sources.sessions.open_ones()
            if one.user == name
        ],
    }


def set_own_password(sources: Sources, asked: Asked) -> Done:
    """Gives whoever is signed in another password, which ends every session of theirs. Form fields: `current_password`,
    `password`."""
    name = asked.viewer.name
    account = sources.store.operators.get(name)
    if account is None or account.password_hash == NO_PASSWORD:
        raise ActionFailed("This account signs in by the provider and has no password here.")
    if not matches(account.password_hash, asked.query.get("current_password", "")):
        raise BadParameter("This is not your password.", "current_password")
    sources.store.operators.put(name, None, _hashed(asked.query.get("password", "")))
    return Done("You have another password; your sessions have ended. Sign in with it.", target=name)


def end_own_sessions(sources: Sources, asked: Asked) -> Done:
    """Signs whoever is signed in out everywhere."""
    ended = sources.sessions.end_all(asked.viewer.name)
    return Done("You are signed out everywhere.", target=asked.viewer.name, detail={"ended": ended})


def _signs_in_by(account: AdminUser) -> str:
    return "provider" if account.password_hash == NO_PASSWORD else "password"


def _user(sources: Sources, asked: Asked) -> str:
    user = asked.text("user", longest=200)
    if sources.store.operators.get(user) is None:
        raise NotThere(f"There is no account {user[:64]!r}.")
    return user


def _version(asked: Asked) -> float | None:
    """When the account was last changed, as the page said; None where the form does not say."""
    return asked.number("version", None, least=0.0, most=1e12)


def _changed(error: AccountChanged) -> ActionFailed:
    now = error.now
    return ActionFailed(
        f"Somebody else has changed {now.name} meanwhile: its role is {now.role}, its password or role was changed last at"
        " the time below. Nothing was changed; send it again to change that.",
        "version",
    )


def _hashed(password: str) -> str:
    try:
        return hashed(password)
    except ValueError as error:
        raise BadParameter(f"{error}.", "password") from error


def _with_password(said: str, user: str, chosen: str, given: str, detail: dict[str, Any]) -> Done:
    if given:
        return Done(said, target=user, detail=detail)
    return Done(said, target=user, detail=detail, shown={"name": user, "password": chosen})


_MEANINGS = {
    Role.VIEWER: "sees figures",
    Role.VIEWER_CONTENT: "also sees prompts, answers and examples",
    Role.OPERATOR: "also changes things",
}
