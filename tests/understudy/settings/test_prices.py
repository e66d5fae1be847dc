"""List prices: what is found by provider and model, what becomes of `price: list`, and a file that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engines.answers.usage import Told, as_chat_tells, usage_of
from understudy.settings.doubts import doubts
from understudy.settings.file import ConfigError, parse_config
from understudy.settings.prices import BadPrices, prices_file, read_prices
from understudy.setup.engines import price_of

SHIPPED = read_prices(prices_file(None))
OPENAI = "https://api.openai.com/v1"
OWN = """\
as_of: 2026-03-01
providers:
  mine:
    source: the contract
    hosts: [llm.example.com]
    models:
      m-1: {input_usd: 0.5, output_usd: 1, context_tokens: 1000}
"""


def engine(model: str | None = "gpt-4o", url: str = OPENAI, **more: Any) -> dict[str, Any]:
    return {"base_url": url, "api_key": "k", "model": model, "price": "list", **more}


def configured(engine: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"engines": {"large": engine}, "models": {"m": {"engines": ["large"], "policy": "fixed"}}} | more


def test_every_listed_price_makes_sense() -> None:
    for name, provider in SHIPPED.providers.items():
        assert provider.source and provider.models and provider.hosts
        for model, listed in provider.models.items():
            where = f"{name}: {model}"
            assert (listed.cached_input_usd or 0) <= listed.input_usd, where
            assert listed.cache_write_usd is None or listed.cache_write_usd >= listed.input_usd, where
            assert (listed.output_usd or listed.input_usd) >= listed.input_usd, where
            assert (listed.max_output_tokens or 0) <= (listed.context_tokens or 0), where


@pytest.mark.parametrize(
    ("kind", "url", "model", "input_usd"),
    [
        ("openai", OPENAI, "gpt-4o", 2.5),
        ("openai", OPENAI, "gpt-4o-2024-08-06", 2.5),
        ("openai", OPENAI, "gpt-4o-2024-05-13", 5),
        ("openai", OPENAI, "gpt-4o-mini-2024-07-18", 0.15),
        ("azure", "https://acme.openai.azure.com", "gpt-4.1", 2),
        ("azure", "${AZURE_API_BASE}", "gpt-4.1", 2),
        ("anthropic", "https://api.anthropic.com", "claude-sonnet-4-5-20250929", 3),
        ("anthropic", "https://api.anthropic.com/v1", "claude-3-5-haiku-latest", 0.8),
        ("openai", "https://generativelanguage.googleapis.com/v1beta/openai", "models/gemini-2.5-pro", 1.25),
        ("openai", "https://api.groq.com/openai/v1", "openai/gpt-oss-20b", 0.075),
        ("openai", "https://gateway.example.com/v1", "openai/gpt-4o", 2.5),
        ("openai", "https://openrouter.ai/api/v1", "x-ai/grok-4", 3),
        (
            "openai",
            "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1",
            "eu.anthropic.claude-3-5-sonnet-20241022-v2:0",
            3,
        ),
        ("openai", OPENAI, "gpt-4o-realtime-preview", None),
        ("openai", OPENAI, "claude-sonnet-4-5", None),
        ("vllm", "http://10.0.0.1:8000/v1", "gpt-4o", None),
        ("vllm", "http://10.0.0.1:8000/v1", "openai/gpt-oss-20b", None),
        (
            "openai",
            "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1",
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            None,
        ),
    ],
)
def test_a_model_is_found_by_name_date_and_provider(
    kind: str, url: str, model: str, input_usd: float | None
) -> None:
    found = SHIPPED.find(kind, url, model)
    assert (found and found.input_usd) == input_usd


def test_an_engine_takes_the_list_s_price_and_window_and_keeps_a_window_of_its_own() -> None:
    listed = parse_config(configured(engine())).engines["large"]
    assert (listed.price.input_usd_per_mtok, listed.price.output_usd_per_mtok) == (2.5, 10)
    assert listed.price.cached_input_usd_per_mtok == 1.25 and listed.context_tokens == 128_000
    assert parse_config(configured(engine(context_tokens=9))).engines["large"].context_tokens == 9
    replicas = engine(base_urls=[{"url": OPENAI}, {"url": "https://eu.api.openai.com/v1"}], model="o3")
    del replicas["base_url"]
    assert parse_config(configured(replicas)).engines["large"].price.output_usd_per_mtok == 8


ANTHROPIC = {
    "input_tokens": 1_000,
    "cache_read_input_tokens": 10_000,
    "cache_creation_input_tokens": 5_000,
    "cache_creation": {"ephemeral_5m_input_tokens": 3_000, "ephemeral_1h_input_tokens": 2_000},
    "output_tokens": 100,
}
CACHED: dict[str, tuple[dict[str, Any], dict[str, Any], float]] = {
    "openai": (
        engine("gpt-4.1"),
        {
            "prompt_tokens": 10_000,
            "completion_tokens": 100,
            "prompt_tokens_details": {"cached_tokens": 8_000},
        },
        2_000 * 2 + 8_000 * 0.5 + 100 * 8,
    ),
    "openai responses": (
        engine("gpt-5"),
        {"input_tokens": 10_000, "output_tokens": 100, "input_tokens_details": {"cached_tokens": 8_000}},
        2_000 * 1.25 + 8_000 * 0.125 + 100 * 10,
    ),
    "anthropic, five minutes and an hour": (
        engine("claude-sonnet-4-5", "https://api.anthropic.com", kind="anthropic"),
        ANTHROPIC,
        1_000 * 3 + 10_000 * 0.3 + 3_000 * 3 * 1.25 + 2_000 * 3 * 2 + 100 * 15,
    ),
    "deepseek": (
        engine("deepseek-chat", "https://api.deepseek.com/v1"),
        {
            "prompt_tokens": 10_000,
            "completion_tokens": 100,
            "prompt_cache_hit_tokens": 8_000,
            "prompt_cache_miss_tokens": 2_000,
        },
        2_000 * 0.28 + 8_000 * 0.028 + 100 * 0.42,
    ),
    "gemini, with a long prompt": (
        engine("gemini-2.5-pro", "https://generativelanguage.googleapis.com/v1beta/openai"),
        {
            "prompt_tokens": 300_000,
            "completion_tokens": 100,
            "prompt_tokens_details": {"cached_tokens": 200_000},
        },
        100_000 * 2.5 + 200_000 * 0.25 + 100 * 15,
    ),
    "gemini, which tells its reasoning beside": (
        engine("gemini-2.5-flash", "https://generativelanguage.googleapis.com/v1beta/openai"),
        {
            "prompt_tokens": 10_000,
            "completion_tokens": 100,
            "total_tokens": 10_400,
            "prompt_tokens_details": {"cached_tokens": 8_000},
        },
        2_000 * 0.3 + 8_000 * 0.03 + 400 * 2.5,
    ),
}


@pytest.mark.parametrize("provider", CACHED)
def test_what_was_read_from_a_cache_or_written_to_it_costs_its_list_price(provider: str) -> None:
    settings, told, dollars_per_mtok = CACHED[provider]
    price = price_of(parse_config(configured(settings)).engines["large"].price)
    used = usage_of({"usage": told})
    assert used is not None and price.cost_usd(used) == pytest.approx(dollars_per_mtok / 1e6, abs=1e-12)


def test_a_chat_completion_tells_what_is_kept_for_an_hour_as_the_message_did() -> None:
    told = Told()
    told.hear({"usage": ANTHROPIC})
    assert usage_of(as_chat_tells(told)) == told.amounts()


def test_an_upstream_is_priced_by_every_model_of_its_provider_with_and_without_a_date() -> None:
    config = parse_config({"upstream": {"base_url": OPENAI, "prices": "list"}})
    assert config.upstream is not None and not doubts(config)
    prices = config.upstream.prices
    assert prices["gpt-4o"] == prices["gpt-4o-20*"] != prices["gpt-4o-2024-05-13"]


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (configured(engine("gpt-none")), ["engines.large.price", "'gpt-none'", "2025-11-30"]),
        (configured(engine(None)), ["engines.large.price", "without `model`"]),
        (
            {"upstream": {"base_url": "http://10.0.0.1/v1", "prices": "list"}},
            ["upstream.prices", "no provider"],
        ),
    ],
)
def test_what_the_list_does_not_have_stays_unpriced_and_is_told_of(
    data: dict[str, Any], named: list[str]
) -> None:
    config = parse_config(data)
    (told,) = (each for each in doubts(config) if "list" in each)
    assert all(part in told for part in named)
    assert not any(each.price.known for each in config.engines.values())


def test_the_data_folder_s_list_holds_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text(OWN)
    data = configured(engine("m-1", "https://llm.example.com/v1"), memory={"data_dir": str(tmp_path)})
    assert parse_config(data).engines["large"].price.output_usd_per_mtok == 1
    (tmp_path / "prices.yaml").write_text(OWN.replace("0.5", "free"))
    with pytest.raises(ConfigError, match=r"m-1\.input_usd is 'free'"):
        parse_config(data)
    assert parse_config(data | {"engines": {"large": engine(price={})}}), "nobody asks for it"


def test_another_word_than_list_is_refused_with_what_is_right() -> None:
    with pytest.raises(ConfigError, match=r"engines.large.price is 'lists': write `list`"):
        parse_config(configured(engine(price="lists")))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (OWN.replace("as_of: 2026-03-01\n", ""), "as_of is required, and missing"),
        (OWN.replace("2026-03-01", "March"), "as_of is 'March'"),
        (OWN.replace("output_usd", "output"), "m-1.output is '1': no such key"),
        (OWN.replace("0.5", "-1"), "m-1.input_usd is '-1': input should be greater than or equal to 0"),
        (OWN.replace("    source: the contract\n", ""), "providers.mine.source is required"),
        ("- a\n", "the file is"),
        ("a: [", "is not valid YAML"),
        ("", "the file is"),
    ],
)
def test_a_wrong_list_is_refused_by_file_key_and_value(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(text)
    with pytest.raises(BadPrices) as error:
        read_prices(file)
    assert told in str(error.value) and "p.yaml" in str(error.value)


def test_a_list_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadPrices, match="cannot read"):
        read_prices(tmp_path / "gone.yaml")
    (tmp_path / "large.yaml").write_text("#" * (2**20 + 1))
    with pytest.raises(BadPrices, match="more than"):
        read_prices(tmp_path / "large.yaml")
