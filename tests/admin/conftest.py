"""What tests of the admin pages share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher

from admin import passwords


@pytest.fixture(autouse=True)
def _quick_hashes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Real hashes with small parameters: the real ones are slow on purpose, and tests/admin/test_passwords.py has them."""
    if request.path.name != "test_passwords.py":
        monkeypatch.setattr(passwords, "_HASHER", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))
    yield
