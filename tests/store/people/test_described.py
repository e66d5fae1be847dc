from __future__ import annotations

import pytest

from store.people.described import changes, described, patched, replaced
from store.people.limits import Budget, Limits, Retention
from store.people.rows import key_from, key_row, tenant_from, tenant_row
from store.records import Key, Tenant

LIMITS = Limits(models=("gpt-4*",), budgets=(Budget(5, "day"),))
KEY = Key("key_1", "a" * 32, "web", "us-12345", 1.5, tenant_name="acme", limits=LIMITS, users_required=False)
TENANT = Tenant(
    "a" * 32, "acme", 1.5, limits=LIMITS, partition="user", retention=Retention(rows_days=2), closed_at_s=7.0
)


def test_what_is_told_can_be_put_back() -> None:
    assert replaced(KEY, described(KEY)) == KEY == patched(KEY, described(KEY))
    assert replaced(TENANT, described(TENANT)) == TENANT == patched(TENANT, described(TENANT))


def test_a_row_holds_all_of_a_record() -> None:
    assert key_from(key_row(KEY)) == KEY
    assert tenant_from(tenant_row(TENANT)) == TENANT


def test_null_takes_a_value_back_and_what_is_not_named_stays() -> None:
    assert patched(KEY, {"limits": {"models": None}}).limits == Limits(budgets=LIMITS.budgets)
    assert patched(KEY, {"limits": None}).limits == Limits()
    assert patched(KEY, {"users_required": None}).users_required is None
    assert patched(TENANT, {"retention": {"rows_days": None, "texts_days": 1}}).retention == Retention(
        texts_days=1
    )
    assert patched(TENANT, {"closed": False}).closed_at_s is None
    assert replaced(KEY, {}).limits == Limits() and replaced(KEY, {}).name == "unnamed"
    with pytest.raises(ValueError, match="'colour'"):
        patched(KEY, {"colour": 1})


def test_changes_tell_old_and_new() -> None:
    after = patched(KEY, {"name": "app", "expires_at": "2031-01-31"})
    assert changes(KEY, after) == {
        "name": {"old": "web", "new": "app"},
        "expires_at": {"old": None, "new": "2031-01-31T00:00:00Z"},
    }
    assert changes(None, KEY)["limits"] == {
        "new": {"models": ["gpt-4*"], "budgets": [{"usd": 5, "per": "day"}]}
    }
    assert changes(KEY, KEY) == {}
