"""Several base URLs of one engine: what they may look like, and what is refused, by name."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.settings.engines import HTTPEngine
from understudy.settings.file import ConfigError, parse_config
from understudy.setup.engines import Tenants, engines, keys_of
from understudy.setup.exposure import exposure
from understudy.setup.served_by import digest, ignored_fields

URL = "http://127.0.0.1:8001/v1"
OTHER = "http://127.0.0.1:8002/v1"


def config(**more: Any) -> Any:
    upstream = {"upstream": more.pop("upstream")} if "upstream" in more else {}
    listen = {"listen": more.pop("listen")} if "listen" in more else {}
    return parse_config(
        {"engines": {"pool": more}, "models": {"m": {"engines": ["pool"]}}, **upstream, **listen}
    )


def pool(**more: Any) -> HTTPEngine:
    found = config(**more).engines["pool"]
    assert isinstance(found, HTTPEngine)
    return found


def refused(**more: Any) -> str:
    with pytest.raises(ConfigError) as error:
        config(**more)
    return str(error.value)


@pytest.mark.parametrize("kind", ["openai", "vllm"])
def test_a_url_alone_or_with_its_weight_and_key(kind: str) -> None:
    given = [URL + "/", {"url": OTHER, "weight": 2, "api_key": "sk-other"}]
    found = pool(kind=kind, base_urls=given, api_key="sk-engine")
    assert list(found.servers) == ["127.0.0.1:8001", "127.0.0.1:8002"]
    assert [one.url for one in found.servers.values()] == [URL, OTHER]
    keys = [one.api_key.get_secret_value() for one in found.servers.values() if one.api_key]
    assert keys == ["sk-engine", "sk-other"]
    assert found.base_urls is not None and [one.weight for one in found.base_urls] == [1, 2]


def test_replicas_behind_one_host_are_told_apart_by_their_paths() -> None:
    given = ["http://localhost/a/v1", "http://localhost/b/v1", "http://localhost:81/v1", "http://[::1]/v1"]
    assert list(pool(base_urls=given).servers) == [
        "localhost:80/a/v1",
        "localhost:80/b/v1",
        "localhost:81",
        "[::1]:80",
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "engines.pool: base_url is missing (or base_urls, for several replicas)"),
        ({"base_url": URL, "base_urls": [OTHER]}, "engines.pool: base_url and base_urls exclude each other"),
        ({"base_urls": []}, "engines.pool: base_urls has 0 entries"),
        ({"base_urls": [URL, OTHER, URL + "/"]}, "engines.pool: base_urls names 127.0.0.1:8001/v1 twice"),
        ({"base_urls": ["http://localhost/v1", "http://LOCALHOST:80/v1"]}, "names localhost:80/v1 twice"),
        ({"base_urls": [f"http://127.0.0.1:{port}/v1" for port in range(1, 66)]}, "base_urls has 65 entries"),
        (
            {"base_urls": [{"url": URL, "weight": -1}]},
            "engines.pool.base_urls.0.weight is -1: must be a number",
        ),
        ({"base_urls": [URL, {"url": OTHER, "weight": float("inf")}]}, "base_urls.1.weight is inf: "),
        ({"base_urls": [{"url": URL, "weight": float("nan")}]}, "base_urls.0.weight is nan: "),
        ({"base_urls": [{"url": URL, "weight": 1001}]}, "must be a number from 0 to 1000"),
        ({"base_urls": [{"url": URL, "weight": "much"}]}, "base_urls.0.weight is 'much'"),
        ({"base_urls": [{"url": URL, "weight": 0}]}, "base_urls has only entries of weight 0"),
        ({"base_urls": ["nowhere"]}, "engines.pool.base_urls.0.url is 'nowhere': must be an http"),
        ({"base_urls": ["http://me:secret@host/v1"]}, "must not carry credentials"),
        ({"base_urls": [{"weight": 1}]}, "engines.pool.base_urls.0.url: required"),
        (
            {"kind": "vllm", "base_urls": [URL], "advanced": {"server_url": URL}},
            "server_url is of one server",
        ),
        ({"base_urls": [URL, "https://api.example.com/v1"]}, "api.example.com needs none"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(given: dict[str, Any], said: str) -> None:
    told = refused(**given)
    assert said in told and "secret@" not in told


def test_only_the_replica_at_the_upstreams_origin_gets_the_clients_key() -> None:
    given = [URL, {"url": "https://api.example.com/v1", "api_key": "sk-its-own"}, OTHER]
    made = config(base_urls=given, upstream={"base_url": URL})
    pool_ = engines(made, Tenants(b"secret"))["pool"]
    servers = getattr(pool_, "servers", ())
    assert [server.info.holds_key for server in servers] == [False, True, True]
    assert not pool_.info.holds_key and keys_of(made) == ("sk-its-own",)


def test_a_replicas_key_is_not_to_be_used_by_strangers() -> None:
    made = config(base_urls=[URL, {"url": OTHER, "api_key": "sk-its-own"}], listen={"host": "0.0.0.0"})
    assert "engines.pool" in (exposure(made, has_keys=False) or "")


def test_remembered_answers_hang_on_where_the_replicas_are_and_not_on_their_order_or_share() -> None:
    one = digest([pool(base_url=URL)])
    both = digest([pool(base_urls=[URL, OTHER])])
    assert one == digest([pool(base_urls=[URL])])
    assert both == digest([pool(base_urls=[{"url": OTHER, "weight": 3, "api_key": "sk"}, URL])])
    assert len({one, both, digest([pool(base_urls=[URL, "http://127.0.0.1:8003/v1"])])}) == 3


def test_only_where_all_are_openai_are_fields_ignored_that_only_openai_keeps() -> None:
    openai = "https://api.openai.com/v1"
    assert ignored_fields([pool(base_urls=[openai], api_key="sk")])
    assert not ignored_fields([pool(base_urls=[openai, URL], api_key="sk")])
