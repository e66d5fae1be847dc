"""A name mistyped is never a tenant."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.people.keys import KeyStore
from store.sqlite.database import Database
from understudy.commands.tenant_option import NoSuchTenant, tenant_named


def test_a_tenant_is_named_as_its_keys_are_or_by_its_id(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "understudy.db")
    keys = KeyStore(db, b"s" * 32)
    assert tenant_named(keys, "default") == "default"
    with pytest.raises(NoSuchTenant, match="no key was made yet"):
        tenant_named(keys, "acme")
    key, _ = keys.create("acme", "laptop")
    assert tenant_named(keys, "acme") == tenant_named(keys, f"id:{key.tenant}") == key.tenant
    for wrong in ("amce", "default", "id:acme", "id:", "id:" + "A" * 32, key.tenant):
        with pytest.raises(NoSuchTenant):
            tenant_named(keys, wrong)
    db.close()
