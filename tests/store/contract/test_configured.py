"""Keys and tenants of the configuration: made, changed, revoked; others untouched; in several processes at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from store import Store
from store.people.configured import Clash, ConfiguredKey, ConfiguredTenant
from store.people.limits import Limits, Terms
from store.records import Key
from tests.patience import eventually
from tests.store.contract.conftest import Opening

FEW = Terms(limits=Limits(requests_per_minute=5))
WEB, APP = "web-secret-0123456789", "app-secret-0123456789"


def lookup(store: Store, secret_text: str) -> Key:
    found = store.keys.lookup(secret_text)
    assert found is not None
    return found


def test_keys_are_made_changed_and_revoked(store: Store) -> None:
    both = [ConfiguredKey("web", "acme", WEB), ConfiguredKey("app", "acme", APP)]
    assert len(store.configured.reconcile(both, [])) == 2
    assert store.configured.reconcile(both, []) == []
    key = lookup(store, WEB)
    assert (key.source, key.tenant_name, key.name, key.prefix) == ("config", "acme", "web", WEB[:4])

    (changed,) = store.configured.reconcile([ConfiguredKey("web", "acme", WEB, FEW), both[1]], [])
    assert (changed.before, changed.digest) == (key, None)
    assert lookup(store, WEB).limits == FEW.limits and lookup(store, WEB).id == key.id

    store.configured.reconcile([both[1]], [])
    assert store.keys.lookup(WEB) is None and store.keys.any_configured()
    store.configured.reconcile(both, [])
    assert lookup(store, WEB) == key


def test_whoever_reconciles_second_knows_at_once_what_the_first_has_changed(open_store: Opening) -> None:
    first, second = open_store(), open_store()
    assert second.keys.lookup(WEB) is None
    web = [ConfiguredKey("web", "acme", WEB)]
    assert first.configured.reconcile(web, []) and not second.configured.reconcile(web, [])
    assert lookup(second, WEB).name == "web"


def test_whoever_reconciles_second_waits_for_no_news_of_the_first(
    open_store: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = open_store(), open_store()
    assert second.keys.lookup(WEB) is None
    heard = second.keys._generation.value()
    monkeypatch.setattr(second.keys._generation, "value", lambda: heard)
    web = [ConfiguredKey("web", "acme", WEB)]
    assert first.configured.reconcile(web, []) and not second.configured.reconcile(web, [])
    assert lookup(second, WEB).name == "web"


def test_a_secret_may_move_from_one_key_to_another_and_two_may_swap_theirs(store: Store) -> None:
    store.configured.reconcile([ConfiguredKey("web", "acme", WEB), ConfiguredKey("app", "acme", APP)], [])
    store.configured.reconcile([ConfiguredKey("web", "acme", APP), ConfiguredKey("app", "acme", WEB)], [])
    assert (lookup(store, APP).name, lookup(store, WEB).name) == ("web", "app")
    store.configured.reconcile([ConfiguredKey("renamed", "acme", APP)], [])
    assert lookup(store, APP).name == "renamed" and store.keys.lookup(WEB) is None


def test_others_are_untouched_and_a_clash_changes_nothing(store: Store) -> None:
    made, secret_text = store.keys.create("acme", "by hand")
    store.tenant_records.create("umbrella", FEW)
    for _ in range(2):
        store.configured.reconcile([], [ConfiguredTenant("acme")])
    assert lookup(store, secret_text) == made
    taken = [ConfiguredKey("web", "acme", WEB), ConfiguredKey("app", "acme", secret_text)]
    with pytest.raises(Clash, match=rf"keys\.app\.secret is that of the key {made.id}.*command line"):
        store.configured.reconcile(taken, [])
    with pytest.raises(Clash, match=r"tenants\.umbrella was made by the command line"):
        store.configured.reconcile([], [ConfiguredTenant("umbrella")])
    twice = [ConfiguredKey("web", "acme", WEB), ConfiguredKey("app", "acme", WEB)]
    with pytest.raises(Clash, match=r"keys\.app\.secret is that of keys\.web"):
        store.configured.reconcile(twice, [])
    assert secret_text not in store.configured.clashes(taken, [])[0]
    assert store.keys.lookup(WEB) is None
    store.keys.revoke(made.id).result(30)
    with pytest.raises(Clash, match="revoked"):
        store.configured.reconcile(taken, [])


def test_a_tenant_that_is_no_longer_listed_is_closed(store: Store) -> None:
    _, secret_text = store.keys.create("acme", "by hand")
    store.configured.reconcile([], [ConfiguredTenant("acme", FEW, "eu")])
    found = store.keys.found(secret_text)
    assert found is not None and found.tenant is not None and found.tenant.region == "eu"
    store.configured.reconcile([], [])
    assert store.keys.lookup(secret_text) is None
    assert store.configured.reconcile([], []) == []
    store.configured.reconcile([], [ConfiguredTenant("acme")])
    assert store.keys.lookup(secret_text) is not None


def test_several_processes_at_once_make_each_key_once(open_store: Opening) -> None:
    stores = [open_store() for _ in range(3)]
    keys = [ConfiguredKey(f"key {n}", "acme", f"secret-number-{n:010}") for n in range(20)]
    with ThreadPoolExecutor(3) as threads:
        changed = list(threads.map(lambda store: store.configured.reconcile(keys, []), stores))
    assert sum(map(len, changed)) == 20
    assert eventually(lambda: all(store.keys.lookup(keys[-1].secret_text) for store in stores))
    assert len(stores[0].keys.list()) == 20
