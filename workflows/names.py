"""Names that clients choose, and ids that nobody can guess."""

from __future__ import annotations

import re
import secrets
from typing import Literal

VariableId = str
"""`var_` and 32 hex digits."""
RunId = str
"""`run_` and 32 hex digits."""
StepId = str
"""Unique within its run."""

OWN = "wf/"
"""The beginning of the name of a tenant's own workflow, as a model's."""
NAME = r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"
"""A variable's name, as it stands between `{{` and `}}` and in a URL."""
_NAME = re.compile(NAME)
_APP = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_ID = {kind: re.compile(rf"{kind}_[0-9a-f]{{32}}") for kind in ("var", "run")}


def valid_app(value: object) -> bool:
    """Tell if `value` may name an app: 1 to 64 of `[A-Za-z0-9_.:-]`."""
    return isinstance(value, str) and _APP.fullmatch(value) is not None


def valid_name(value: object) -> bool:
    """Tell if `value` may name a variable: 1 to 64 of `[A-Za-z0-9_.-]`, a letter or `_` first."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def new_id(kind: Literal["var", "run"]) -> str:
    """`var_` or `run_` and 32 hex digits: 128 random bits."""
    return f"{kind}_{secrets.token_hex(16)}"


def is_id(kind: Literal["var", "run"], value: object) -> bool:
    """Tell if `value` has the form of such an id."""
    return isinstance(value, str) and _ID[kind].fullmatch(value) is not None


def scoped(end_user: str, name: str) -> str:
    """The name of an app, a collection or an idempotency key among all of its tenant: an end user's own, if there is one."""
    return f"{end_user}/{name}" if end_user else name
