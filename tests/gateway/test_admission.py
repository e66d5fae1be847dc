"""Whose request it is and what they may reach, where nothing but the key's record says it."""

from __future__ import annotations

from gateway import wanted
from gateway.journey import arrival
from gateway.keys import Sender
from router.asked import EVERYTHING, Admitted
from store.people.limits import Budget, Limits
from store.records import Key, Tenant
from tests.gateway.serving import open_admission

KEY = Key("key_1", "t", "web", "us-", 0.0, tenant_name="acme")
TENANT = Tenant("t", "acme", 0.0, region="eu", partition="tenant", limits=Limits(models=("a*",)))


def test_without_a_key_an_arrival_says_its_api_only() -> None:
    found = open_admission().arrived(arrival("POST", "/v1/files"), None, "/files?x=1")
    assert (found.api, found.tenant, found.key_name, found.reach) == ("files", "default", "", EVERYTHING)


async def admitted(sender: Sender) -> Admitted:
    came = open_admission().arrived(arrival("POST", "/"), sender, "/chat/completions")
    assert not isinstance(came, Admitted), "it is known whose it is, and nothing more"
    return await open_admission().admit(came, sender, wanted.step({"model": "ab"}), "")


async def test_a_key_without_limits_may_reach_everything() -> None:
    found = await admitted(Sender("t", "key_1", key=KEY))
    assert (found.key_id, found.key_name, found.tenant_name, found.partition) == ("key_1", "web", "acme", "")
    assert found.reach is EVERYTHING


async def test_what_key_and_tenant_say_holds_together() -> None:
    key = Key("key_1", "t", "web", "us-", 0.0, limits=Limits(models=("*b",), budgets=(Budget(1.0, "day"),)))
    sender = Sender("t", "key_1", key=key, tenant_record=TENANT)
    found = await admitted(sender)
    reach = found.reach
    assert [reach.allows_model(name) for name in ("ab", "a", "b", "axb")] == [True, False, False, True]
    assert (reach.region, reach.priced_only, found.partition) == ("eu", True, "tenant")
    assert reach.allows_region("eu") and not reach.allows_region("")
