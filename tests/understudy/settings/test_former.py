"""Every setting that there was is still taken, or answered with what to write instead."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from understudy.settings.config import Config
from understudy.settings.file import ConfigError, parse_config
from understudy.settings.former import FORMER, Fixed, Moved, Removed, without_former
from understudy.settings.names import settings_of

WAS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "former_settings.yaml").read_text("utf-8"))
NAMES = {setting.name for setting in settings_of(Config)}
LEAST: dict[str, Any] = {
    "upstream": {"base_url": "http://127.0.0.1:1/v1"},
    "engines": {
        "small": {"base_url": "http://127.0.0.1:2/v1"},
        "medium": {"kind": "vllm", "base_url": "http://127.0.0.1:3/v1"},
        "local": {"kind": "vllm-local", "model_dir": "org/model"},
        "large": {"kind": "simulated", "role": "lead"},
    },
    "models": {"gpt-4o": {"engines": ["small", "medium", "large"]}},
    "memory": {"data_dir": "data"},
    "judging": {"engine": "large"},
}


def put(data: dict[str, Any], name: str, value: Any) -> None:
    *groups, last = name.split(".")
    for group in groups:
        data = data.setdefault(group, {})
    data[last] = value


def starred(name: str) -> str:
    parts = name.split(".")
    return ".".join([parts[0], "*", *parts[2:]]) if parts[0] in ("engines", "models") else name


@pytest.mark.parametrize("name", WAS)
def test_each_is_taken_or_answered_with_its_successor(name: str) -> None:
    data = copy.deepcopy(LEAST)
    put(data, name, WAS[name])
    became = FORMER.get(starred(name))
    if became is None:
        if name.endswith("price.output_usd_per_mtok"):
            # Since prices may be unknown, one alone is refused.
            put(data, name.replace("output", "input"), 0)
        parse_config(data)
        assert starred(name) in NAMES
        return
    with pytest.raises(ConfigError) as error:
        parse_config(data)
    (told,) = str(error.value).splitlines()
    assert told.startswith(name)
    if isinstance(became, Moved):
        where = told.rpartition(" ")[2]
        assert where == became.to.replace("*", name.split(".")[1])
        now = copy.deepcopy(LEAST)
        put(now, where, WAS[name])
        parse_config(now)
    elif isinstance(became, Removed):
        assert "removed, because" in told
    else:
        assert isinstance(became, Fixed) and repr(became.at) in told and "because" in told
        assert became.at == WAS[name], "what is fixed is fixed at its former default"


def test_a_whole_former_file_is_told_all_in_one_go() -> None:
    data: dict[str, Any] = {}
    for name, value in WAS.items():
        put(data, name, value)
    with pytest.raises(ConfigError) as error:
        parse_config(data)
    told = str(error.value).splitlines()
    assert len(told) == sum(starred(name) in FORMER for name in WAS)
    left, _ = without_former(data)
    parse_config(left)


def test_what_is_wrong_besides_is_told_too() -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(LEAST | {"listen": {"prefixes": ["/v1"], "port": "x"}, "feedback": {"max_kib": 1}})
    told = str(error.value)
    assert "listen.advanced.prefixes" in told and "listen.port is 'x'" in told
    assert "feedback.max_kib is 1: it is now fixed at 256" in told


def test_what_was_removed_says_why() -> None:
    data = copy.deepcopy(LEAST)
    put(data, "models.gpt-4o.in_context.examples.provider", "cuda")
    with pytest.raises(ConfigError, match=r"gpt-4o\.in_context\.examples\.provider: removed.*CPU"):
        parse_config(data)


def test_no_former_name_is_a_setting_and_every_successor_is_one() -> None:
    assert not NAMES & set(FORMER)
    assert {each.to for each in FORMER.values() if isinstance(each, Moved)} <= NAMES | {
        "replay.advanced.kv_plan.engines"
    }


@pytest.mark.parametrize(
    ("data", "meant"),
    [
        ({"memory": {"ttl_s": 3}}, "memory.ttl_s: no such setting; did you mean memory.exact.ttl_s?"),
        ({"lisen": {"port": 1}}, "did you mean listen?"),
        ({"models": {"m": {"engines": ["a"], "few_shot": {"tehta": 1}}}}, "models.m.few_shot.theta?"),
        ({"engines": {"x": {"base_url": "http://x", "max_infligt": 3}}}, "engines.x.max_in_flight?"),
        ({"log": {"zzz": 1}}, "docs/reference/settings.md"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(data: dict[str, Any], meant: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config({"upstream": {"base_url": "http://x"}} | data)
    assert meant in str(error.value)


@pytest.mark.parametrize(
    ("was", "now"), [("false", "off"), ("off", "off"), ("true", "examples"), ("route", "route")]
)
def test_with_tools_was_a_boolean_and_says_the_same_as_before(was: str, now: str) -> None:
    text = f"""
    engines: {{a: {{base_url: http://127.0.0.1:9/v1}}}}
    models: {{m: {{engines: [a], advanced: {{with_tools: {was}}}}}}}
    """
    assert parse_config(yaml.safe_load(text)).models["m"].advanced.with_tools == now
