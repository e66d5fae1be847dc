"""LiteLLM's configurations: ten files as people write them are imported, pass `check` and answer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.flow.line import Line, Upstream, line, upstream
from understudy.__main__ import main
from understudy.importing.bounded_yaml import TooMuch
from understudy.importing.litellm import KEY_NAME, NotLiteLLM, imported
from understudy.settings.file import resolve

FILES = sorted((Path(__file__).parent / "litellm_files").glob("*.yaml"))
SECRET = "sk-master-0123456789abcdef"
VARIABLES = {
    "AZURE_API_KEY_EU": "eu-key",
    "AZURE_API_KEY_FR": "fr-key",
    "ANTHROPIC_API_KEY": "anthropic-key",
    "COHERE_API_KEY": "cohere-key",
    "DEEPSEEK_API_KEY": "deepseek-key",
    "GEMINI_API_KEY": "gemini-key",
    "GROQ_API_KEY": "groq-key",
    "HEADER_X_TEAM": "research",
    "LITELLM_MASTER_KEY": SECRET,
    "OPENAI_API_KEY": "openai-key",
    "OPENROUTER_API_KEY": "openrouter-key",
}
PATHS = {
    "text-embedding-3-small": ("/embeddings", {"input": "Q?"}),
    "embed": ("/embeddings", {"input": "Q?"}),
    "dall-e-3": ("/images/generations", {"prompt": "A house."}),
    "whisper": ("/audio/speech", {"input": "Q?", "voice": "alloy"}),
    "moderation": ("/moderations", {"input": "Q?"}),
    "rerank": ("/rerank", {"query": "Q?", "documents": ["A."]}),
}
"""How each model that is no chat model is asked."""


def named(path: Path) -> str:
    return path.stem


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    yield


@pytest.mark.parametrize("file", FILES, ids=named)
def test_a_file_is_imported_and_passes_check(file: Path, tmp_path: Path) -> None:
    written = written_from(file, tmp_path)
    checked = CliRunner().invoke(main, ["check", str(written)])
    assert checked.exit_code == 0, checked.output


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=named)
async def test_what_a_file_became_answers(file: Path, tmp_path: Path) -> None:
    written = written_from(file, tmp_path)
    config = resolve(yaml.safe_load(written.read_text("utf-8")), os.environ)
    async with upstream() as behind:
        config = elsewhere(config, behind.url, tmp_path)
        async with line(config) as run:
            for model in config["models"]:
                await asks(run, behind, model.replace("*", "o-mini"), keyed="keys" in config)


def written_from(file: Path, folder: Path) -> Path:
    written = folder / "config.yaml"
    done = CliRunner().invoke(main, ["import-config", str(file), "-o", str(written)])
    assert done.exit_code == 0, done.output
    return written


def elsewhere(config: dict[str, Any], url: str, data: Path) -> dict[str, Any]:
    """The same with the test's upstream in the place of every provider."""
    for name, engine in config["engines"].items():
        for number, replica in enumerate(engine.get("base_urls", ())):
            replica["url"] = url.replace("/v1", "") if engine["kind"] == "azure" else f"{url}/{name}/{number}"
        if engine["kind"] == "azure":
            # One replica of the two, which differ by their host only.
            engine["base_urls"] = engine["base_urls"][:1]
        if "base_url" in engine:
            engine["base_url"] = url
    memory = config["memory"] | {"data_dir": str(data / "data")}
    listen = {key: value for key, value in config["listen"].items() if key != "port"}
    return config | {"memory": memory, "listen": listen, "otel": {}, "health": {"every_s": None}}


async def asks(run: Line, behind: Upstream, model: str, *, keyed: bool) -> None:
    path, fields = PATHS.get(model, ("/chat/completions", {"messages": [{"role": "user", "content": "Q?"}]}))
    headers = {"Authorization": f"Bearer {SECRET}"} if keyed else {}
    before = len(behind.asked)
    answer = await run.post(path, {"model": model, "user": "ann", **fields}, headers)
    assert answer.status == 200, answer.body
    # A vLLM server's load is read meanwhile.
    (asked,) = (one for one in behind.asked[before:] if one.path.partition("?")[0].endswith(path))
    assert SECRET not in str(asked.headers)
    root = run.url.removesuffix("/v1")
    async with run.session.post(
        root + path, json={"model": model, "user": "ann", **fields}, headers=headers
    ) as bare:
        assert bare.status == 200, "LiteLLM's clients may leave /v1 out"


def config_of(model_list: Any = None, **more: Any) -> str:
    models = model_list if model_list is not None else [entry("gpt-4o", "openai/gpt-4o")]
    return json.dumps({"model_list": models, **more})


def entry(name: str, model: str, info: Mapping[str, Any] | None = None, **params: Any) -> dict[str, Any]:
    return {"model_name": name, "litellm_params": {"model": model, **params}, "model_info": info or {}}


def test_costs_per_token_are_prices_per_million() -> None:
    config, _ = imported(
        config_of([entry("m", "openai/m", {"output_cost_per_token": 1e-5}, input_cost_per_token="2.5e-06")])
    )
    assert config["engines"]["m"]["price"] == {"input_usd_per_mtok": 2.5, "output_usd_per_mtok": 10.0}


def test_equal_deployments_are_replicas_by_weight_and_others_stand_in() -> None:
    def at(host: str, **more: Any) -> dict[str, Any]:
        return entry("m", "hosted_vllm/llama", api_base=f"http://{host}/v1", **more)

    config, report = imported(config_of([at("a", rpm=5000), at("b", rpm=2500), at("c", rpm=10, order=2)]))
    assert config["models"]["m"]["engines"] == ["m-2", "m"]
    assert [one["weight"] for one in config["engines"]["m"]["base_urls"]] == [1000, 500]
    assert config["engines"]["m-2"]["base_url"] == "http://c/v1"
    assert any("rpm" in note.where for note in report.changed)


def test_fallbacks_stand_behind_a_model_s_own_engines_in_their_order() -> None:
    models = [entry(name, f"openai/{name}") for name in ("a", "b", "c")]
    config, report = imported(
        config_of(models, router_settings={"fallbacks": [{"a": ["b", "c", "nobody"]}], "num_retries": 9})
    )
    assert config["models"]["a"]["engines"] == ["c", "b", "a"], "the last is asked first"
    assert config["engines"]["a"]["advanced"]["attempts"] == 6
    assert any("nobody" in note.text for note in report.left_out)


ROUTED = {
    "azure/o_series/dep": "dep",
    "azure/gpt5_series/dep": "dep",
    "azure/responses/dep": "dep",
    "azure/dep": "dep",
    "openai/responses/gpt-5": "gpt-5",
    "responses/gpt-5": "gpt-5",
    "openai/gpt-5": "gpt-5",
    "xai/responses/grok-4": "grok-4",
    "openrouter/openai/gpt-4o": "openai/gpt-4o",
    "together_ai/meta-llama/Llama-3": "meta-llama/Llama-3",
    "hosted_vllm/org/model": "org/model",
    "ollama/llama3:8b": "llama3:8b",
    "ollama_chat/llama3:8b": "llama3:8b",
}


@pytest.mark.parametrize("model", ROUTED)
def test_how_litellm_asks_is_no_part_of_a_model_s_name(model: str) -> None:
    config, report = imported(config_of([entry("m", model, api_base="https://x.example")]))
    (engine,) = config["engines"].values()
    assert engine["model"] == ROUTED[model]
    told = [note.where for note in report.changed if note.where.endswith(".model")]
    responses = "responses/" in model
    assert bool(told) == responses and ("responses" in engine.get("apis", ())) == responses


BASES = {
    "https://x.example/v1/chat/completions": "https://x.example/v1",
    "https://x.example/v1/embeddings/": "https://x.example/v1",
    "https://x.example/v1?key=canary": "https://x.example/v1",
    "https://x.example/v1": "https://x.example/v1",
}
AZURE = "https://x.openai.azure.com"


@pytest.mark.parametrize("base", BASES)
def test_an_endpoint_or_a_query_is_no_part_of_a_base_url(base: str) -> None:
    config, report = imported(config_of([entry("m", "openai/a", api_base=base)]))
    assert config["engines"]["m"]["base_url"] == BASES[base]
    assert any(note.where.endswith(".api_base") for note in report.changed) == (BASES[base] != base)
    assert "canary" not in str(report.lines())


@pytest.mark.parametrize(
    "params",
    [
        {"api_base": f"{AZURE}/openai/deployments/d/chat/completions?api-version=2024-10-21"},
        {"api_base": f"{AZURE}/openai/deployments/d", "api_version": "2024-10-21"},
        {"api_base": AZURE, "api_version": "2024-10-21"},
    ],
)
def test_azure_s_version_is_found_wherever_it_stands(params: dict[str, Any]) -> None:
    text = config_of([entry("m", "azure/d", **params)])
    # With quotes, and without.
    for written in (text, text.replace('"2024-10-21"', "2024-10-21")):
        engine = imported(written)[0]["engines"]["m"]
        assert (engine["base_url"], engine["api_version"]) == (AZURE, "2024-10-21")


def test_ollama_s_own_endpoint_gives_way_to_its_openai_one() -> None:
    config, _ = imported(config_of([entry("m", "ollama/l", api_base="http://127.0.0.1:11434/api/chat")]))
    assert config["engines"]["m"]["base_url"] == "http://127.0.0.1:11434/v1"


def test_two_engines_are_told_of_only_where_there_are_two() -> None:
    config, report = imported(config_of([entry("c", "anthropic/claude-x")]))
    assert len(config["engines"]) == 2 and "two engines" in str(report.lines())
    config, report = imported(config_of([entry("c", "anthropic/claude-x", api_base="https://relay.example")]))
    assert len(config["engines"]) == 1 and "two engines" not in str(report.lines())
    assert "Messages API only" in str(report.changed)


def test_fallbacks_of_every_model_stand_behind_each() -> None:
    models = [entry(name, f"openai/{name}") for name in ("a", "b", "c")]
    config, report = imported(config_of(models, router_settings={"fallbacks": [{"*": ["c"]}, {"x": ["a"]}]}))
    assert {name: model["engines"] for name, model in config["models"].items()} == {
        "a": ["c", "a"],
        "b": ["c", "b"],
        "c": ["c"],
    }
    assert any(note.where == "router_settings.fallbacks.x" for note in report.left_out)


@pytest.mark.parametrize(
    ("name", "value"), [("cache", "true"), ("turn_off_message_logging", "yes"), ("set_verbose", 1)]
)
def test_a_switch_that_is_no_boolean_is_named(name: str, value: Any) -> None:
    config, report = imported(config_of(litellm_settings={name: value}))
    assert not config["memory"]["exact"]["enabled"]
    assert any(note.where == f"litellm_settings.{name}" for note in report.left_out)


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_retries", "many"), ("weight", []), ("headers", "x"), ("region_name", {}), ("rpm", -1)],
)
def test_a_parameter_that_cannot_be_read_is_named(name: str, value: Any) -> None:
    _, report = imported(config_of([entry("a", "openai/a", **{name: value})]))
    assert any(note.where.endswith(f".{name}") for note in report.left_out)


def test_a_mode_that_is_not_known_is_named() -> None:
    _, report = imported(config_of([entry("a", "openai/a", {"mode": "video_generation"})]))
    assert any(note.where.endswith(".mode") for note in report.left_out)


def test_secrets_of_the_file_are_neither_written_nor_told() -> None:
    secrets = ["sk-proj-canary-0123456789abcdef", "canary-header-value", "sk-canary-master-0123456789"]
    params = {"api_key": secrets[0], "extra_headers": {"x-key": secrets[1]}}
    again = entry("b", "openai/b", **params)
    config, report = imported(
        config_of([entry("a", "openai/a", **params), again], general_settings={"master_key": secrets[2]})
    )
    told = "\n".join(report.lines()) + str(config) + repr(report)
    assert not [secret for secret in secrets if secret in told]
    assert config["engines"]["a"]["api_key"] == config["engines"]["b"]["api_key"] == "${OPENAI_API_KEY}"
    assert config["keys"] == {KEY_NAME: {"secret": "${LITELLM_MASTER_KEY}", "tenant": "default"}}
    assert set(report.variables) == {"OPENAI_API_KEY", "HEADER_X_KEY", "LITELLM_MASTER_KEY"}


def test_every_setting_is_told_of_once_or_more() -> None:
    """Whatever stands in the sample files is among what was taken, changed or left out."""
    for file in FILES:
        data = yaml.safe_load(file.read_text("utf-8"))
        _, report = imported(file.read_text("utf-8"))
        places = " ".join(note.where for note in (*report.taken, *report.changed, *report.left_out))
        for section in ("router_settings", "litellm_settings", "general_settings"):
            for name in data.get(section) or {}:
                assert f"{section}.{name}" in places or name == "budget_duration", (file.name, name)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no model_list"),
        ("[1, 2]", "no model_list"),
        ("model_list: soon", "no model_list"),
        ("listen: {port: 1}", "no model_list"),
        (config_of([]), "none of its models"),
        (config_of([7, {"model_name": "a"}]), "no litellm_params.model"),
        (config_of([entry("a", "bedrock/claude")]), "AWS"),
        (config_of([entry("a", "nobody/claude")]), "no api_base"),
    ],
)
def test_what_is_no_configuration_of_litellm_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(NotLiteLLM, match=why):
        imported(text)


def test_a_refusal_says_which_file_and_a_bomb_is_not_read(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.yaml"
    bomb.write_text("a: &a [1,1]\n" + "".join(f"{c}: &{c} [{'*a,' * 9}*a]\n" for c in "b") + "[" * 9999)
    done = CliRunner().invoke(main, ["import-config", str(bomb)])
    assert done.exit_code == 2 and "bomb.yaml" in done.stderr and not done.stdout
    with pytest.raises(TooMuch):
        imported("- 1\n" * 100_000)


def test_a_file_that_is_there_is_replaced_only_on_demand(tmp_path: Path) -> None:
    there = tmp_path / "config.yaml"
    there.write_text("mine")
    asked = ["import-config", str(FILES[0]), "-o", str(there)]
    assert CliRunner().invoke(main, asked).exit_code == 2 and there.read_text() == "mine"
    assert CliRunner().invoke(main, [*asked, "--force"]).exit_code == 0 and "engines:" in there.read_text()


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    [
        *(
            "num_retries",
            "timeout",
            "fallbacks",
            "cache",
            "cache_params",
            "master_key",
            "max_budget",
            "callbacks",
        ),
        *("mode", "api_key", "api_base", "rpm", "weight", "order", "input_cost_per_token", "extra_headers"),
        *("model_group_alias", "context_window_fallbacks", "health_check_interval", "allowed_fails"),
        "litellm_credential_name",
    ]
)


@settings(max_examples=30, deadline=None)
@given(params=st.dictionaries(NAMES, ANY), section=st.dictionaries(NAMES, ANY), other=ANY)
def test_values_of_any_kind_end_in_a_configuration_or_a_reason(
    params: dict[str, Any], section: dict[str, Any], other: Any
) -> None:
    data = {
        "model_list": [
            {"model_name": "a", "litellm_params": {"model": "openai/a", **params}, "model_info": params}
        ],
        "router_settings": section,
        "litellm_settings": section,
        "general_settings": section,
        "credential_list": other,
        "guardrails": other,
    }
    try:
        config, report = imported(yaml.safe_dump(data))
    except NotLiteLLM:
        return
    assert config["models"] and report.lines()


BIFROST = st.sampled_from(
    [
        *("keys", "value", "models", "weight", "aliases", "azure_key_config", "endpoint", "deployments"),
        *("network_config", "base_url", "max_retries", "extra_headers", "concurrency_and_buffer_size"),
    ]
)


@settings(max_examples=30, deadline=None)
@given(key=st.dictionaries(BIFROST, ANY), provider=st.dictionaries(BIFROST, ANY), other=ANY)
def test_values_of_any_kind_in_bifrost_s_file_end_in_a_configuration_or_a_reason(
    key: dict[str, Any], provider: dict[str, Any], other: Any
) -> None:
    keys = [{"value": "env.K", "models": ["a"], **key}, other]
    data = {
        "providers": {"openai": {"keys": keys, **provider}, "azure": {**provider, "keys": keys}, 7: other}
    }
    try:
        config, report = imported(yaml.safe_dump(data))
    except NotLiteLLM:
        return
    assert config["models"] and report.lines()


BUDGET = {"litellm_settings": {"max_budget": 1000, "max_end_user_budget": 5}}


def test_a_budget_beside_models_without_a_price_refuses_nothing_and_the_report_says_what_to_do(
    tmp_path: Path,
) -> None:
    unlisted = config_of([entry("own", "openai/own")], **BUDGET)
    config, report = imported(unlisted)
    assert all(limits["allow_unpriced"] for limits in config["tenants"]["default"].values())
    assert any("--prices" in line and "allow_unpriced" in line for line in report.lines())
    file = tmp_path / "litellm.yaml"
    file.write_text(unlisted)
    checked = CliRunner().invoke(main, ["check", str(written_from(file, tmp_path))])
    assert checked.exit_code == 0 and "unpriced (" not in checked.stderr


def test_a_model_of_a_known_provider_gets_its_list_price_unless_the_file_says_one(tmp_path: Path) -> None:
    models = [
        entry("listed", "gpt-4o"),
        entry("said", "openai/gpt-4o", {"output_cost_per_token": 2e-5}),
        entry("sonnet", "anthropic/claude-sonnet-4-5-20250929"),
        entry("elsewhere", "openai/gpt-4o", api_base="http://10.0.0.1/v1"),
    ]
    config, report = imported(config_of(models, **BUDGET))
    prices = {name: engine.get("price") for name, engine in config["engines"].items()}
    assert prices["listed"] == prices["sonnet"] == prices["sonnet-chat"] == "list"
    assert prices["said"] == {"output_usd_per_mtok": 20.0} and prices["elsewhere"] is None
    assert any("prices: the file has none of" in line and "price: list" in line for line in report.lines())
    file = tmp_path / "litellm.yaml"
    file.write_text(config_of(models[:1], **BUDGET))
    written = written_from(file, tmp_path)
    assert "allow_unpriced" not in written.read_text()
    checked = CliRunner().invoke(main, ["check", str(written)])
    assert checked.exit_code == 0 and not checked.stderr, "the budget has its price"


def test_litellm_s_price_table_fills_in_what_the_file_does_not_say(tmp_path: Path) -> None:
    listed = {"input_cost_per_token": 2.5e-6, "output_cost_per_token": 1e-5, "max_tokens": 4096}
    models = [
        entry("gpt-4o", "openai/gpt-4o"),
        entry("own", "openai/own", {"base_model": "gpt-4o"}),
        entry("said", "openai/gpt-4o", {"output_cost_per_token": 2e-5}),
    ]
    file, table = tmp_path / "litellm.yaml", tmp_path / "prices.json"
    file.write_text(config_of(models, **BUDGET))
    table.write_text(json.dumps({"gpt-4o": listed, "odd": 3}))
    done = CliRunner().invoke(main, ["import-config", str(file), "--prices", str(table)])
    assert done.exit_code == 0, done.output
    config = yaml.safe_load(done.stdout)
    prices = {name: engine["price"] for name, engine in config["engines"].items()}
    assert prices["gpt-4o"] == prices["own"] == {"input_usd_per_mtok": 2.5, "output_usd_per_mtok": 10.0}
    assert prices["said"]["output_usd_per_mtok"] == 20.0
    assert "allow_unpriced" not in done.stdout
    table.write_text("[]")
    refused = CliRunner().invoke(main, ["import-config", str(file), "--prices", str(table)])
    assert refused.exit_code == 2 and "no price table" in refused.stderr
