"""What the pages keep for a short while in memory: results of actions to be shown, and forms of sessions that had ended."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cachetools import TTLCache

from admin.refused_forms import NEVER_FILLED

_RESULTS, _RESULT_S = 256, 600
_FORMS, _FORM_S = 64, 1800
_LONGEST_FORM = 256 * 1024
"""Characters of a form that is kept; 64 of them are 16 MiB."""


@dataclass(frozen=True, slots=True)
class Result:
    """What an action gave to be shown, not revealed yet."""

    session: bytes
    page: Any
    """The admin.page.Page of the action."""
    template: str
    summary: Mapping[str, Any]
    message: str
    again: bool


class Results:
    """Results by a random id: shown to the session that made them only, and once unless they say otherwise."""

    def __init__(self) -> None:
        self._kept: TTLCache[str, Result] = TTLCache(maxsize=_RESULTS, ttl=_RESULT_S)
        self._lock = threading.Lock()

    def put(
        self, token: str, page: Any, template: str, summary: Mapping[str, Any], message: str, *, again: bool
    ) -> str:
        """Keeps a result for ten minutes; gives its id."""
        id = secrets.token_urlsafe(16)
        with self._lock:
            self._kept[id] = Result(_key(token), page, template, summary, message, again)
        return id

    def take(self, id: str, token: str) -> Result | None:
        """The result, if it is this session's and was not shown before."""
        with self._lock:
            found: Result | None = self._kept.get(id)
            if found is None or found.session != _key(token):
                return None
            if not found.again:
                del self._kept[id]
            return found


@dataclass(frozen=True, slots=True)
class WrittenForm:
    """A form that came when its session had ended."""

    user: str
    action: str
    referer: str
    """The page it was written on, as the browser named it."""
    values: Mapping[str, tuple[str, ...]]


class WrittenForms:
    """Half-written texts by a random id, for the account whose session it was and nobody else."""

    def __init__(self) -> None:
        self._kept: TTLCache[str, WrittenForm] = TTLCache(maxsize=_FORMS, ttl=_FORM_S)
        self._lock = threading.Lock()

    def put(self, user: str, action: str, referer: str, values: Mapping[str, tuple[str, ...]]) -> str:
        """Keeps a form for half an hour, without passwords; gives its id, or nothing where it is too long to keep."""
        kept = {
            name: given for name, given in values.items() if not any(part in name for part in NEVER_FILLED)
        }
        if sum(len(one) for given in kept.values() for one in given) > _LONGEST_FORM:
            return ""
        id = secrets.token_urlsafe(16)
        with self._lock:
            self._kept[id] = WrittenForm(user, action, referer, kept)
        return id

    def get(self, id: str, user: str) -> WrittenForm | None:
        """The form, if it is this account's."""
        with self._lock:
            found: WrittenForm | None = self._kept.get(id)
        return found if found is not None and found.user == user else None


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
