"""Passwords: only a slow, salted hash is kept."""

from __future__ import annotations

import re

import pytest

from admin.passwords import PasswordCheck, hashed, matches, new_password, wants_rehash


async def test_a_password_matches_its_own_hash_only() -> None:
    password = new_password()
    assert re.fullmatch(r"([a-z2-9]{5}-){4}[a-z2-9]{5}", password)
    digest = hashed(password)
    assert digest.startswith("$argon2id$") and password not in digest and not wants_rehash(digest)
    check = PasswordCheck()
    assert await check.matches(digest, password)
    assert not await check.matches(digest, password + "x")
    assert not await check.matches(None, password), "nobody's account"
    check.close()
    assert not matches("no hash", password)


@pytest.mark.parametrize("password", ["short", "x" * 1025])
def test_a_password_that_is_too_short_or_too_long_is_refused(password: str) -> None:
    with pytest.raises(ValueError, match="12 to 1024"):
        hashed(password)
