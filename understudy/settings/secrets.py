"""A secret as settings have it: its text is never shown, and what cannot be one is refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, SecretStr


def _can_be_a_key(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    if not text:
        raise ValueError("is empty: leave it out, or write none where no key is needed")
    if text != text.strip() or not text.isprintable():
        raise ValueError("has a space around it, or a character that no header can hold")
    if text.lower().startswith("bearer "):
        raise ValueError("begins with Bearer, which is put before it anyway: write the key alone")
    if text.startswith("$") and not text.startswith("${"):
        raise ValueError("begins with $, and no variable was put in its place: write ${NAME}, with braces")
    return secret


ApiKey = Annotated[SecretStr, AfterValidator(_can_be_a_key)]
"""A key that is sent in a header."""
