"""Thirty-odd configurations in the shapes that public repositories have: each becomes one of ours or says why, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from understudy.__main__ import main
from understudy.commands.import_config import _stand_ins
from understudy.settings.core_yaml import read_yaml
from understudy.settings.file import parse_config, resolve

G = "- model_name: gpt-4o\n  litellm_params: {model: openai/gpt-4o, api_key: os.environ/OPENAI_API_KEY}\n"
ONE = "model_list:\n" + G
OLLAMA = "- model_name: llama3\n  litellm_params: {model: ollama/llama3.1, api_base: 'http://ollama:11434'}\n"

SHAPES: dict[str, tuple[str, list[str], list[str]]] = {
    "one model": (ONE, ["gpt-4o"], ["1 entries are 1 engines"]),
    "no provider in the name": (
        "model_list: [{model_name: gpt-3.5-turbo, litellm_params: {model: gpt-3.5-turbo}}]",
        ["gpt-3.5-turbo"],
        ["OPENAI_API_KEY: as LiteLLM reads it"],
    ),
    "ollama in compose": ("model_list:\n" + OLLAMA, ["llama3"], ["1 entries are 1 engines"]),
    "ollama_chat at its own endpoint": (
        "model_list: [{model_name: q, litellm_params: {model: ollama_chat/qwen3:8b, api_base: 'http://h:11434/api/chat'}}]",
        ["q"],
        ["the base URL is http://h:11434"],
    ),
    "ollama for everything": (
        "model_list: [{model_name: '*', litellm_params: {model: 'ollama/*', api_base: 'http://localhost:11434'}}]",
        ["*"],
        [],
    ),
    "azure by deployment": (
        "model_list:\n- model_name: gpt-4\n  litellm_params:\n    model: azure/gpt-4-eu\n"
        "    api_base: os.environ/AZURE_API_BASE\n"
        "    api_key: os.environ/AZURE_API_KEY\n    api_version: 2024-10-21\n  model_info: {base_model: azure/gpt-4o}\n",
        ["gpt-4"],
        ["AZURE_API_BASE: as before"],
    ),
    "azure with the whole path": (
        "model_list: [{model_name: g, litellm_params: {model: azure/g, api_key: k-0123456789, api_base: "
        "'https://r.openai.azure.com/openai/deployments/g/chat/completions?api-version=2024-06-01'}}]",
        ["g"],
        ["the endpoint and the query are not part of it", "the secret stands in the file"],
    ),
    "balanced azure regions": (
        "model_list:\n"
        + "".join(
            f"- model_name: g\n  litellm_params: {{model: azure/g, api_base: 'https://{r}.openai.azure.com', "
            f"api_key: os.environ/KEY_{r.upper()}, api_version: '2024-10-21', rpm: 60, tpm: 1000}}\n"
            for r in ("eu", "us")
        )
        + "router_settings: {routing_strategy: usage-based-routing-v2, redis_host: os.environ/REDIS_HOST, num_retries: 2}\n",
        ["g"],
        ["2 equal deployments are base URLs of one engine", "routing_strategy", "redis_host", "num_retries"],
    ),
    "anthropic and openai": (
        ONE + "- model_name: claude\n  litellm_params: {model: anthropic/claude-sonnet-4-20250514}\n",
        ["gpt-4o", "claude"],
        ["Messages requests go to Anthropic's API"],
    ),
    "claude code's names": (
        "model_list:\n"
        "- model_name: claude-3-5-haiku\n  litellm_params: {model: openrouter/deepseek/deepseek-chat}\n"
        "- model_name: claude-sonnet-4\n  litellm_params: {model: openrouter/moonshotai/kimi-k2, max_tokens: 8192}\n",
        ["claude-3-5-haiku", "claude-sonnet-4"],
        ["max_tokens"],
    ),
    "bedrock beside openai": (
        ONE
        + "- model_name: b\n  litellm_params: {model: bedrock/anthropic.claude-v2, aws_region_name: us-east-1}\n",
        ["gpt-4o"],
        ["bedrock: its requests are signed with AWS credentials"],
    ),
    "vertex beside gemini": (
        "model_list:\n- model_name: v\n  litellm_params: {model: vertex_ai/gemini-2.5-pro, vertex_project: p}\n"
        "- model_name: g\n  litellm_params: {model: gemini/gemini-2.5-flash}\n",
        ["g"],
        ["vertex_ai: its access tokens are fetched from Google"],
    ),
    "bedrock alone": (
        "model_list: [{model_name: b, litellm_params: {model: bedrock/amazon.nova-lite-v1:0}}]",
        [],
        ["none of its models can be served here", "AWS credentials"],
    ),
    "vllm in kubernetes": (
        "model_list: [{model_name: qwen, litellm_params: {model: hosted_vllm/Qwen/Qwen3-8B, "
        "api_base: 'http://vllm:8000/v1', api_key: fake-key}, "
        "model_info: {max_input_tokens: 32768, supports_function_calling: true}}]",
        ["qwen"],
        ["supports_function_calling"],
    ),
    "any server of openai's API": (
        "model_list: [{model_name: m, litellm_params: {model: openai/my-model, "
        "api_base: 'http://10.0.0.5:8080/v1', api_key: none}}]",
        ["m"],
        [],
    ),
    "lm studio": (
        "model_list: [{model_name: l, litellm_params: {model: lm_studio/phi-4, api_base: 'http://host.docker.internal:1234/v1'}}]",
        ["l"],
        [],
    ),
    "reranking": (
        ONE
        + "- model_name: rr\n  litellm_params: {model: cohere/rerank-english-v3.0}\n  model_info: {mode: rerank}\n"
        "- model_name: jr\n  litellm_params: {model: jina_ai/jina-reranker-v2}\n  model_info: {mode: rerank}\n"
        "- model_name: vr\n  litellm_params: {model: hosted_vllm/BAAI/bge-reranker-v2-m3, api_base: 'http://r:8000'}\n"
        "  model_info: {mode: rerank}\n",
        ["gpt-4o", "rr", "jr", "vr"],
        ["4 entries", "/v1/rerank or /v2/rerank"],
    ),
    "embeddings and speech": (
        "model_list:\n- model_name: e\n  litellm_params: {model: voyage/voyage-3}\n  model_info: {mode: embedding}\n"
        "- model_name: w\n  litellm_params: {model: groq/whisper-large-v3}\n  model_info: {mode: audio_transcription}\n",
        ["e", "w"],
        [],
    ),
    "fallbacks of every kind": (
        "model_list:\n"
        + G
        + OLLAMA
        + "- model_name: big\n  litellm_params: {model: gemini/gemini-2.5-pro}\n"
        + "litellm_settings:\n  fallbacks: [{gpt-4o: [llama3]}, {'*': [big]}]\n  default_fallbacks: [llama3]\n"
        "  context_window_fallbacks: [{gpt-4o: [big]}]\n  content_policy_fallbacks: [{gpt-4o: [big]}]\n",
        ["gpt-4o", "llama3", "big"],
        ["behind the engines of gpt-4o", "larger_context is big", "content_policy_fallbacks"],
    ),
    "a budget with prices of the list": (
        ONE
        + "litellm_settings: {max_budget: 50, budget_duration: 7d}\ngeneral_settings: {master_key: os.environ/MK}\n",
        ["gpt-4o"],
        ["50 dollars per calendar week", "price: list"],
    ),
    "a budget beside ollama": (
        "model_list:\n" + OLLAMA + "litellm_settings: {max_budget: 10, budget_duration: 1d}\n",
        ["llama3"],
        ["allow_unpriced is true", "llama3"],
    ),
    "prices of one's own": (
        "model_list: [{model_name: m, litellm_params: {model: openai/m, input_cost_per_token: 0.0000015, "
        "output_cost_per_token: 2e-06}, model_info: {input_cost_per_token: 1.5e-06}}]",
        ["m"],
        [],
    ),
    "a database and a UI": (
        ONE + "general_settings: {master_key: sk-1234567890abcdef, database_url: os.environ/DATABASE_URL, "
        "store_model_in_db: true, ui_access_mode: admin_only, alerting: [slack], alerting_threshold: 300, "
        "proxy_batch_write_at: 60, database_connection_pool_limit: 10}\n",
        ["gpt-4o"],
        ["database_url", "store_model_in_db", "alerting", "the secret stands in the file"],
    ),
    "observability": (
        ONE + "litellm_settings: {success_callback: [langfuse, prometheus], failure_callback: [sentry], "
        "callbacks: [otel, custom_callbacks.handler], set_verbose: true, json_logs: true}\n"
        "environment_variables: {LANGFUSE_PUBLIC_KEY: pk-lf-canary, LANGFUSE_SECRET_KEY: sk-lf-canary}\n",
        ["gpt-4o"],
        ["langfuse", "prometheus", "sentry", "otel", "environment_variables"],
    ),
    "a cache in redis": (
        ONE
        + "litellm_settings: {cache: true, cache_params: {type: redis, host: redis, port: 6379, ttl: 600}}\n",
        ["gpt-4o"],
        ["memory.exact", "ttl_s is 600", "host, port"],
    ),
    "guardrails and MCP": (
        ONE
        + "guardrails: [{guardrail_name: pii, litellm_params: {guardrail: presidio, mode: pre_call}}]\n"
        + "mcp_servers: {deepwiki: {url: 'https://mcp.deepwiki.com/mcp'}}\n",
        ["gpt-4o"],
        ["guardrails", "mcp_servers"],
    ),
    "every model of a provider": (
        "model_list:\n- model_name: 'openai/*'\n  litellm_params: {model: 'openai/*'}\n"
        "- model_name: '*'\n  litellm_params: {model: 'openai/*'}\n",
        ["*"],
        ["its clients put the provider before the model's name"],
    ),
    "aliases": (
        ONE
        + "router_settings: {model_group_alias: {gpt-4: gpt-4o, hidden: {model: gpt-4o, hidden: true}}}\n",
        ["gpt-4o", "gpt-4", "hidden"],
        ["a model with the engines of gpt-4o"],
    ),
    "credentials by name": (
        "credential_list: [{credential_name: c, credential_values: {api_key: os.environ/K, api_base: 'https://h.example/v1'}}]\n"
        "model_list: [{model_name: m, litellm_params: {model: openai/m, litellm_credential_name: c}}]\n",
        ["m"],
        ["1 credentials"],
    ),
    "anchors and another file": (
        "include: [models.yaml]\nx-openai: &o {api_key: os.environ/OPENAI_API_KEY, timeout: 30}\n"
        "model_list:\n- model_name: a\n  litellm_params: {<<: *o, model: openai/gpt-4o-mini}\n",
        ["a"],
        ["include"],
    ),
    "chinese providers": (
        "model_list:\n- model_name: k\n  litellm_params: {model: moonshot/kimi-k2-0711-preview}\n"
        "- model_name: q\n  litellm_params: {model: dashscope/qwen-max}\n"
        "- model_name: d\n  litellm_params: {model: deepseek/deepseek-chat}\n"
        "- model_name: v\n  litellm_params: {model: volcengine/ep-1, api_key: os.environ/ARK}\n",
        ["k", "q", "d", "v"],
        ["4 entries are 4 engines"],
    ),
    "a provider that nobody knows": (
        ONE + "- model_name: n\n  litellm_params: {model: nonesuch/m}\n",
        ["gpt-4o"],
        ["the provider of 'nonesuch/m' is not known here"],
    ),
    "responses and o-series": (
        "model_list:\n- model_name: codex\n  litellm_params: {model: openai/responses/gpt-5-codex}\n"
        "- model_name: o\n  litellm_params: {model: azure/o_series/my-o3, api_base: 'https://r.openai.azure.com'}\n",
        ["codex", "o"],
        ["apis is [responses]", "chat completions and Messages are translated"],
    ),
    "numbers in quotes and switches in words": (
        ONE
        + "litellm_settings: {num_retries: '3', request_timeout: '600', drop_params: 'True', cache: 'yes'}\n"
        + "general_settings: {health_check_interval: 300, background_health_checks: true}\n",
        ["gpt-4o"],
        ["cache: it is a text; true or false", "every_s is 300", "drop_params"],
    ),
    "teams and routes": (
        ONE + "litellm_settings: {default_team_settings: [{team_id: t, success_callback: [langfuse]}]}\n"
        "general_settings: {pass_through_endpoints: [{path: /v1/x, target: 'https://h'}], "
        "allowed_routes: ['/chat/completions']}\n",
        ["gpt-4o"],
        ["default_team_settings", "pass_through_endpoints", "allowed_routes"],
    ),
    "bifrost's smallest": (
        '{"$schema": "https://www.getbifrost.ai/schema", "providers": {"openai": {"keys": [{"name": "p", '
        '"value": "env.OPENAI_API_KEY", "models": ["*"], "weight": 1.0}]}}, "config_store": {"enabled": false}}',
        ["*"],
        ["without openai/ before its name", "config_store", "OPENAI_API_KEY: as before"],
    ),
    "bifrost with several providers": (
        """{"client": {"enable_logging": true}, "encryption_key": "env.K", "providers": {
        "openai": {"keys": [{"value": "sk-canary-0123456789", "models": ["gpt-4o", "gpt-4o-mini"], "weight": 0.7}],
          "network_config": {"base_url": "https://proxy.example", "default_request_timeout_in_seconds": 30,
            "max_retries": 2, "retry_backoff_initial": 100},
          "concurrency_and_buffer_size": {"concurrency": 3, "buffer_size": 10}},
        "azure": {"keys": [{"value": "env.AZURE_KEY", "models": ["gpt-4"], "azure_key_config":
          {"endpoint": "env.AZURE_ENDPOINT", "api_version": "2024-10-21", "deployments": {"gpt-4": "my-gpt4"}}}]},
        "anthropic": {"keys": [{"value": "env.ANTHROPIC_API_KEY", "models": ["claude-sonnet-4-20250514"]}]},
        "bedrock": {"keys": [{"models": ["nova"], "bedrock_key_config": {"region": "us-east-1"}}]},
        "ollama": {"keys": [{"models": ["llama3"], "aliases": {"fast": "qwen3:4b"}}],
          "network_config": {"base_url": "http://localhost:11434"}}},
        "governance": {"virtual_keys": []}, "mcp": {"client_configs": []}, "plugins": []}""",
        sorted(
            f"{prefix}{name}"
            for provider, names in {
                "openai/": ["gpt-4o", "gpt-4o-mini"],
                "azure/": ["gpt-4"],
                "anthropic/": ["claude-sonnet-4-20250514"],
                "ollama/": ["llama3", "fast"],
            }.items()
            for name in names
            for prefix in (provider, "")
        ),
        [
            "bedrock: its requests are signed",
            "bedrock_key_config",
            "governance",
            "retry_backoff_initial",
            "mcp",
        ],
    ),
    "bifrost with strange values": (
        '{"providers": {"openai": {"keys": [7, {"value": {"a": 1}, "models": "gpt"}]}, "groq": []}}',
        [],
        ["is not imported"],
    ),
    "portkey's smallest": (
        '{"provider": "openai", "api_key": "sk-canary-0123456789", "override_params": {"model": "gpt-4o-mini"}}',
        ["*"],
        ["1 targets are 1 engines", "OPENAI_API_KEY"],
    ),
    "portkey with a virtual key": (
        '{"virtual_key": "anthropic-prod", "retry": {"attempts": 3, "on_status_codes": [429]}, "request_timeout": 10000}',
        ["*"],
        ["is kept at Portkey: export it as ANTHROPIC_PROD"],
    ),
    "portkey with a slug": (
        '{"provider": "@openai-eu/x", "override_params": {"model": "gpt-4o", "temperature": 0.2}}',
        ["*"],
        ["temperature: requests go out as they came"],
    ),
    "portkey with a virtual key of nobody": (
        '{"virtual_key": "team-a-9f8e"}',
        [],
        ["is not imported", "write `provider` beside it"],
    ),
    "portkey with fallbacks": (
        """{"strategy": {"mode": "fallback", "on_status_codes": [429, 500]}, "targets": [
        {"provider": "openai", "api_key": "sk-canary-0123456789", "override_params": {"model": "gpt-4o"}},
        {"provider": "azure-openai", "api_key": "canary-azure-0123", "azure_resource_name": "mine",
         "azure_deployment_id": "gpt-4o", "azure_api_version": "2024-10-21"},
        {"provider": "groq", "virtual_key": "groq-1", "override_params": {"model": "llama-3.3-70b-versatile"}}]}""",
        ["*"],
        ["on_status_codes", "behind it", "GROQ_1"],
    ),
    "portkey with shared requests": (
        """{"strategy": {"mode": "loadbalance"}, "cache": {"mode": "simple", "max_age": 60}, "targets": [
        {"provider": "openai", "virtual_key": "openai-a", "custom_host": "https://a.example/v1", "weight": 0.7},
        {"provider": "openai", "virtual_key": "openai-b", "custom_host": "https://b.example/v1", "weight": 0.3}]}""",
        ["*"],
        ["2 equal deployments are base URLs of one engine, by their weights", "exact repeats"],
    ),
    "portkey with shares within fallbacks": (
        """{"strategy": {"mode": "fallback"}, "targets": [
        {"strategy": {"mode": "loadbalance"}, "targets": [
          {"provider": "openai", "api_key": "os.environ/A", "custom_host": "https://a.example/v1", "weight": 1},
          {"provider": "openai", "api_key": "os.environ/B", "custom_host": "https://b.example/v1", "weight": 3}]},
        {"provider": "anthropic", "virtual_key": "anthropic-1", "override_params": {"model": "claude-sonnet-4"}}]}""",
        ["*"],
        ["2 equal deployments", "behind it"],
    ),
    "portkey with conditions": (
        """{"strategy": {"mode": "conditional", "conditions": [{"query": {"metadata.plan": {"$eq": "paid"}},
          "then": "large"}], "default": "small"}, "targets": [
        {"name": "large", "provider": "openai", "api_key": "os.environ/A", "override_params": {"model": "gpt-4o"}},
        {"name": "small", "provider": "openai", "api_key": "os.environ/A", "override_params": {"model": "gpt-4o-mini"}}]}""",
        ["*"],
        ["its default is asked", "give each a model name of its own"],
    ),
    "portkey with guardrails and a similar cache": (
        """{"provider": "mistral-ai", "api_key": "canary-mistral-1", "cache": {"mode": "semantic", "max_age": 300},
        "input_guardrails": ["pg-1"], "forward_headers": ["x-a"], "strict_open_ai_compliance": false}""",
        ["*"],
        ["input_guardrails", "similar ones are opt-in", "forward_headers"],
    ),
    "portkey at bedrock": (
        '{"provider": "bedrock", "aws_region": "us-east-1", "override_params": {"model": "amazon.nova-lite-v1:0"}}',
        [],
        ["is not imported", "its requests are signed"],
    ),
    "portkey with values of other kinds": (
        '{"provider": "openai", "api_key": "k", "azure_resource_name": ["a"], "override_params": {"model": ["x"]}}',
        [],
        ["is not imported", "it is a list; a text is right"],
    ),
    "portkey with numbers that are none": (
        '{"provider": "openai", "api_key": "sk-canary-1", "request_timeout": true, "cache": {"max_age": true}}',
        ["*"],
        ["target 1.timeout: true is no number of seconds", "what stands at target 1.api_key"],
    ),
    "portkey in camelCase": (
        """{"mode": "fallback", "options": [
        {"provider": "openai", "apiKey": "sk-canary-0123456789", "requestTimeout": 5000,
         "overrideParams": {"model": "gpt-4o"}},
        {"virtualKey": "anthropic-1", "overrideParams": {"model": "claude-sonnet-4"}}]}""",
        ["*"],
        ["2 targets are 3 engines", "behind it", "ANTHROPIC_1"],
    ),
    "portkey's server": (
        """{"plugins_enabled": ["default"], "credentials": {"akto": {"apiKey": "canary-akto-1"}}, "cache": false,
        "integrations": [
          {"provider": "anthropic", "slug": "dev", "credentials": {"apiKey": "sk-ant-canary-123"},
           "rate_limits": [{"type": "requests", "unit": "rph", "value": 3}],
           "models": [{"slug": "claude-sonnet-4", "status": "active"}, {"slug": "claude-2", "status": "archived"}]},
          {"provider": "azure-openai", "slug": "eu", "credentials": {"apiKey": "canary-azure-1", "azureResourceName": "mine",
           "azureApiVersion": "2024-10-21"}, "models": [{"slug": "gpt-4o", "status": "active"}]}]}""",
        ["@dev/claude-sonnet-4", "@eu/gpt-4o", "claude-sonnet-4", "gpt-4o"],
        [
            "plugins_enabled",
            "rate_limits: requests are limited for keys",
            "'claude-2' is not active",
            "4 names of models are",
        ],
    ),
    "portkey's server without integrations": (
        '{"plugins_enabled": ["default"], "credentials": {"portkey": {"apiKey": "canary-0123"}}, "cache": false}',
        [],
        ["is not imported", "x-portkey-config"],
    ),
    "portkey's server with strange values": (
        '{"integrations": [7, {"provider": ["x"], "models": 3}, {"provider": "groq", "models": [{"slug": {}}, null]}]}',
        [],
        ["is not imported", "a text is right"],
    ),
    "portkey with strange values": (
        '{"strategy": {"mode": 7}, "targets": [3, {"targets": {"a": 1}}, {"provider": ["x"], "weight": "much"}]}',
        [],
        ["is not imported"],
    ),
    "an empty list": ("model_list: []\n", [], ["is not imported"]),
    "nothing of LiteLLM": ("version: '3'\nservices: {}\n", [], ["is not imported", "no model_list"]),
    "a list of texts": ("model_list: [gpt-4o, claude]\n", [], ["is not imported", "it has no model_name"]),
}
"""By what it shows: (the file, the models that come of it, what is told). Without models it is refused."""


@pytest.mark.parametrize("what", SHAPES)
def test_a_configuration_becomes_one_of_ours_or_says_why(what: str, tmp_path: Path) -> None:
    text, models, told = SHAPES[what]
    source, written = tmp_path / "litellm.yaml", tmp_path / "config.yaml"
    source.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(main, ["import-config", str(source), "-o", str(written)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert not [part for part in told if part not in done.output], done.output
    assert "canary" not in done.output and "Traceback" not in done.output
    assert (done.exit_code == 0) is bool(models), done.output
    if models:
        assert "health probes" in done.output
        config: dict[str, Any] = read_yaml(written.read_text("utf-8"))
        assert sorted(config["models"]) == sorted(models)
        parse_config(resolve(config, _stand_ins(config)))


def test_there_are_thirty_of_them() -> None:
    assert len(SHAPES) >= 30
