from __future__ import annotations

from typing import Any

import pytest

from store.people.limits import Retention
from understudy.settings.file import ConfigError, parse_config, resolve
from understudy.settings.keys import KeySettings
from understudy.settings.tenants import TenantSettings

SECRET = "web-secret-0123456789"


def parsed(**more: Any) -> Any:
    return parse_config({"upstream": {"base_url": "http://127.0.0.1:9/v1"}, "memory": {}, **more})


def test_what_a_key_and_a_tenant_may_is_read_as_the_store_keeps_it() -> None:
    said = {
        "limits": {"models": ["gpt-4*"], "budgets": [{"usd": 5, "per": "day"}]},
        "expires_at": "2031-01-31",
    }
    data = {
        "keys": {"web": {"secret": "${WEB}", **said}},
        "tenants": {"acme": {**said, "retention": {"texts_days": 7}}},
    }
    config = parsed(**resolve(data, {"WEB": SECRET}))
    key, tenant = config.keys["web"], config.tenants["acme"]
    assert isinstance(key, KeySettings) and isinstance(tenant, TenantSettings)
    assert key.terms() == tenant.terms()
    assert key.terms().limits.budgets[0].usd == 5 and key.terms().expires_at_s == 1927584000.0
    assert tenant.retention == Retention(texts_days=7)
    assert SECRET not in repr(config)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"keys": {"web": {}}}, "keys.web.secret: required"),
        ({"keys": {"web": SECRET}}, "keys.web is (not shown)"),
        (
            {"keys": {"web": {"secret": SECRET[:9]}}},
            "keys.web.secret is (not shown): the secret has 9 characters",
        ),
        (
            {"keys": {"web": {"secret": SECRET, "limits": {"budgets": [{"usd": -1, "per": "day"}]}}}},
            "keys.web.limits.budgets.0.usd is -1: a number from 0 to",
        ),
        ({"keys": {"web": {"secret": SECRET, "limits": {"models": [""]}}}}, "keys.web.limits.models.0 is ''"),
        ({"keys": {"web": {"secret": SECRET, "limits": 5}}}, "keys.web.limits"),
        ({"keys": {"web": {"secret": SECRET, "expires_at": "soon"}}}, "keys.web.expires_at is 'soon'"),
        ({"keys": {"web": {"secret": SECRET, "tennant": "x"}}}, "did you mean keys.web.tenant?"),
        ({"keys": {"x" * 1000: {"secret": SECRET}}}, "the key name is 'xxx"),
        ({"tenants": {"acme": {"partition": "world"}}}, "tenants.acme.partition"),
        ({"tenants": {"acme": {"retention": {"texts_days": 0}}}}, "tenants.acme.retention.texts_days"),
        ({"tenants": {f"id:{'0' * 32}": {}}}, "what begins with 'id:' is read as a tenant's id"),
        ({"keys": {"web": {"secret": SECRET, "tenant": "id:x"}}}, "the tenant name is 'id:x'"),
        ({"tenants": {"acme": {}}, "memory": None}, "nothing keeps them"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_cannot_be_right_is_told_without_the_secret(data: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parsed(**data)
    assert told in str(refused.value) and SECRET not in str(refused.value)
