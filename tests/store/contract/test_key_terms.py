"""Keys with limits and an end: changed, rotated, expired; and what is laid down for their tenants."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from store import Store
from store.people.keys import NoSuchKey
from store.people.limits import Budget, Limits, Retention, Terms
from store.people.tenants import NoSuchTenantRecord, TenantExists
from store.people.tokens import NoSuchToken
from tests.patience import eventually
from tests.store.contract.conftest import Opening

TERMS = Terms(
    limits=Limits(models=("gpt-4*",), requests_per_minute=60, budgets=(Budget(2.5, "month"),)),
    each_user=Limits(budgets=(Budget(0.1, "day"),), time_zone="Europe/Berlin"),
    expires_at_s=4e9,
    partition="tenant",
    users_required=True,
)


def test_a_key_has_the_terms_it_was_made_with_in_every_process(open_store: Opening) -> None:
    ours, theirs = open_store(), open_store()
    key, secret_text = ours.keys.create("acme", "web", terms=TERMS, source="api")
    assert (key.limits, key.each_user, key.expires_at_s) == (TERMS.limits, TERMS.each_user, 4e9)
    assert (key.partition, key.users_required, key.source) == ("tenant", True, "api")
    assert eventually(lambda: theirs.keys.lookup(secret_text) == key)
    assert theirs.keys.list() == [key] == [theirs.keys.get(key.id)]


def test_an_edited_key_keeps_its_secret_and_its_tenant(store: Store) -> None:
    key, secret_text = store.keys.create("acme", "web")
    before, after = store.keys.edit(
        key.id, lambda key: replace(key, limits=TERMS.limits, name="app", tenant="x")
    )
    assert before == key
    assert after == replace(key, limits=TERMS.limits, name="app")
    assert store.keys.lookup(secret_text) == after
    with pytest.raises(NoSuchKey):
        store.keys.edit("key_missing", lambda key: key)
    with pytest.raises(ValueError, match="key name"):
        store.keys.edit(key.id, lambda key: replace(key, name="x" * 2**20))
    with pytest.raises(ValueError, match="expires_at"):
        store.keys.edit(key.id, lambda key: replace(key, expires_at_s=float("nan")))
    assert store.keys.get(key.id) == after


def test_an_expired_key_opens_nothing_and_is_told_from_an_unknown_one(store: Store) -> None:
    _, over = store.keys.create("acme", "web", terms=Terms(expires_at_s=time.time() - 1))
    _, good = store.keys.create("acme", "web", terms=Terms(expires_at_s=time.time() + 3600))
    assert store.keys.lookup(over) is None and store.keys.expired(over)
    assert store.keys.lookup(good) is not None and not store.keys.expired(good)
    assert not store.keys.expired("us-unknown")


def test_a_rotated_key_s_older_secret_is_taken_until_its_grace_ends(store: Store) -> None:
    key, first = store.keys.create("acme", "web")
    rotated, second = store.keys.rotate(key.id, 3600)
    assert rotated.rotated_until_s is not None and rotated.prefix == second[:8]
    assert [found and found.id for found in map(store.keys.lookup, (first, second))] == [key.id, key.id]
    _, third = store.keys.rotate(key.id)
    assert [store.keys.lookup(secret) is None for secret in (first, second, third)] == [True, True, False]
    _, fourth = store.keys.rotate(key.id, 0.001)
    assert eventually(lambda: store.keys.lookup(third) is None)
    store.keys.rotate(key.id, 3600)
    store.keys.revoke(key.id).result(30)
    assert store.keys.lookup(fourth) is None
    with pytest.raises(ValueError, match="revoked"):
        store.keys.rotate(key.id, 3600)


def test_clients_keep_the_secret_that_they_have(store: Store) -> None:
    theirs = "sk-from-another-gateway-0123"
    key, secret_text = store.keys.create("acme", "web", secret_text=theirs)
    assert secret_text == theirs and store.keys.lookup(theirs) == key
    with pytest.raises(ValueError, match=f"already that of {key.id}"):
        store.keys.create("umbrella", "other", secret_text=theirs)
    store.keys.rotate(key.id, 3600)
    with pytest.raises(ValueError, match=f"already that of {key.id}"):
        store.keys.create("umbrella", "other", secret_text=theirs)
    for wrong in (
        "short",
        "x" * 600,
        "sk-with a space in it",
        "sk-ümlaut-0123456789",
        "us-admin-" + "a" * 40,
    ):
        with pytest.raises(ValueError, match="the secret") as told:
            store.keys.create("umbrella", "other", secret_text=wrong)
        assert wrong not in str(told.value)


def test_a_tenant_s_record_comes_with_its_keys(open_store: Opening) -> None:
    ours, theirs = open_store(), open_store()
    key, secret_text = ours.keys.create("acme", "web")
    kept = Retention(texts_days=7, examples_days=30.5)
    tenant = ours.tenant_records.create("acme", TERMS, region="eu", retention=kept)
    assert (tenant.id, tenant.limits, tenant.retention) == (key.tenant, TERMS.limits, kept)
    found = ours.keys.found(secret_text)
    assert found is not None and found.tenant == tenant == ours.tenant_records.get(key.tenant)
    assert eventually(lambda: theirs.tenant_records.get(key.tenant) == tenant)
    assert theirs.tenant_records.list() == [tenant] == [theirs.tenant_records.named("acme")]
    with pytest.raises(TenantExists):
        ours.tenant_records.create("acme")
    with pytest.raises(NoSuchTenantRecord):
        ours.tenant_records.named("nobody")


def test_a_closed_tenant_s_keys_open_nothing_until_it_is_opened_again(store: Store) -> None:
    _, secret_text = store.keys.create("acme", "web")
    store.tenant_records.create("acme")
    _, closed = store.tenant_records.close("acme")
    assert store.keys.lookup(secret_text) is None
    assert store.tenant_records.close("acme") == (closed, closed)
    store.tenant_records.edit("acme", lambda tenant: replace(tenant, closed_at_s=None))
    assert store.keys.lookup(secret_text) is not None
    store.tenant_records.edit("acme", lambda tenant: replace(tenant, expires_at_s=1.0))
    assert store.keys.lookup(secret_text) is None and store.keys.expired(secret_text)
    with pytest.raises(ValueError, match="texts_days"):
        store.tenant_records.edit("acme", lambda tenant: replace(tenant, retention=Retention(texts_days=-1)))
    with pytest.raises(ValueError, match="tenant name"):
        store.tenant_records.create("x" * 2**20)


def test_an_admin_token_is_found_until_it_is_revoked_or_over_and_is_no_key(open_store: Opening) -> None:
    ours, theirs = open_store(), open_store()
    token, secret_text = ours.admin_tokens.create("terraform", "operator", time.time() + 3600)
    assert theirs.admin_tokens.find(secret_text) == token
    assert theirs.keys.lookup(secret_text) is None
    _, key = ours.keys.create("acme", "web")
    assert theirs.admin_tokens.find(key) is None
    revoked = ours.admin_tokens.revoke(token.id)
    assert theirs.admin_tokens.find(secret_text) is None
    assert theirs.admin_tokens.list() == [revoked] == [ours.admin_tokens.revoke(token.id)]
    for name, role, expires_at_s in (("", "viewer", None), ("a", "root", None), ("a", "viewer", 1.0)):
        with pytest.raises(ValueError):
            ours.admin_tokens.create(name, role, expires_at_s)
    with pytest.raises(NoSuchToken):
        ours.admin_tokens.revoke("token_missing")
