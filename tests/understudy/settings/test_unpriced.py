"""A budget that refuses requests since an engine has no price is told of before anybody is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from understudy.commands.check import check
from understudy.settings.config import Config
from understudy.settings.doubts import doubts
from understudy.settings.unpriced import unpriced

BUDGET = {"budgets": [{"usd": 10, "per": "day"}]}
PRICE = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 2.0}
SECRET = "a-secret-of-this-test"


def engine(**more: Any) -> dict[str, Any]:
    return {"base_url": "http://127.0.0.1:9/v1", "api_key": "none", **more}


def configured(**more: Any) -> dict[str, Any]:
    """Two models, `dear` with a price and `free` without one, and what the test adds."""
    return {
        "engines": {"dear": engine(price=PRICE, model="dear"), "free": engine(model="free")},
        "models": {name: {"engines": [name], "policy": "fixed"} for name in ("dear", "free")},
        "memory": {"data_dir": None},
        **more,
    }


def key(limits: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"secret": SECRET, "limits": limits, **more}


ONLY_FREE = BUDGET | {"models": ["fr*"]}
EVERYTHING = {
    "a key": {"keys": {"web": key(ONLY_FREE)}},
    "end users of a key": {"keys": {"web": {"secret": SECRET, "each_user": ONLY_FREE}}},
    "a key of a tenant with a budget": {
        "keys": {"web": key({"models": ["free"]}, tenant="acme")},
        "tenants": {"acme": {"limits": BUDGET}},
    },
    "a tenant without keys here": {"tenants": {"acme": {"limits": ONLY_FREE}}},
    "a model of which one engine has no price": {
        "models": {"m": {"engines": ["free", "dear"], "policy": "fixed"}},
        "keys": {"web": key(BUDGET)},
    },
    "a larger context without a price": {
        "models": {"m": {"engines": ["dear"], "larger_context": "free", "policy": "fixed"}},
        "keys": {"web": key(BUDGET)},
    },
    "an upstream without prices": {
        "models": {},
        "engines": {},
        "upstream": {"base_url": "http://127.0.0.1:9/v1"},
        "keys": {"web": key(BUDGET)},
    },
}
SOME = {
    "a key that may use both": {"keys": {"web": key(BUDGET)}},
    "a tenant": {"keys": {"web": key({}, tenant="acme")}, "tenants": {"acme": {"limits": BUDGET}}},
    "an upstream without prices beside": {
        "models": {"dear": {"engines": ["dear"], "policy": "fixed"}},
        "engines": {"dear": engine(price=PRICE)},
        "upstream": {"base_url": "http://127.0.0.1:9/v1"},
        "keys": {"web": key(BUDGET)},
    },
}
NOTHING = {
    "no budget": {"keys": {"web": key({"models": ["free"]})}},
    "a key that may use what has a price": {"keys": {"web": key(BUDGET | {"models": ["dear"]})}},
    "allowed by the key": {"keys": {"web": key(BUDGET | {"allow_unpriced": True})}},
    "a price of 0": {
        "engines": {"dear": engine(price=PRICE), "free": engine(price={"input_usd_per_mtok": 0})},
        "keys": {"web": key(BUDGET)},
    },
    "a key of another tenant": {
        "keys": {"web": key({}, tenant="b")},
        "tenants": {"acme": {"limits": BUDGET | {"models": ["dear"]}}},
    },
    "an upstream that a key cannot reach": {
        "upstream": {"base_url": "http://127.0.0.1:9/v1"},
        "keys": {"web": key(BUDGET | {"models": ["dear"]})},
    },
}


def checked(more: dict[str, Any], folder: Path) -> tuple[int, str, list[str]]:
    settings = configured(**more)
    path = folder / "understudy.yaml"
    path.write_text(yaml.safe_dump(settings))
    done = CliRunner().invoke(check, [str(path)])
    told = [each for each in doubts(Config.model_validate(settings)) if "unpriced" in each]
    return done.exit_code, done.stderr, told


@pytest.mark.parametrize("what", EVERYTHING)
def test_what_refuses_every_request_is_an_error_of_check_and_a_warning_of_the_start(
    what: str, tmp_path: Path
) -> None:
    status, said, told = checked(EVERYTHING[what], tmp_path)
    (one,) = told
    assert status == 2 and f"understudy: error: {one}" in said
    assert "refuses every request (403 unpriced)" in one and ("web" in one or "acme" in one)
    assert "engines.free.price" in one or "upstream.prices" in one
    assert ".allow_unpriced: true" in one


@pytest.mark.parametrize("what", SOME)
def test_what_refuses_some_requests_is_a_warning_that_names_key_and_engine(what: str, tmp_path: Path) -> None:
    status, said, told = checked(SOME[what], tmp_path)
    (one,) = told
    assert status == 0 and f"understudy: warning: {one}" in said
    assert "keys.web" in one and ("engines.free.price" in one or "upstream.prices" in one)


@pytest.mark.parametrize("what", NOTHING)
def test_what_refuses_nothing_for_that_is_not_told_of(what: str, tmp_path: Path) -> None:
    status, _, told = checked(NOTHING[what], tmp_path)
    assert (status, told) == (0, [])


def test_keys_that_are_refused_the_same_are_told_of_together() -> None:
    config = Config.model_validate(
        configured(
            keys={"a": key({}), "b": key({}) | {"secret": "another-secret-of-this"}},
            tenants={"default": {"limits": BUDGET}},
        )
    )
    (told,) = unpriced(config).some
    assert told.startswith("a budget of keys.a, keys.b refuses every request for free")
