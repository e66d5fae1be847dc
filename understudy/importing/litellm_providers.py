"""LiteLLM's providers: where each is found by an OpenAI client, and where LiteLLM reads its key.

From LiteLLM's provider pages (docs.litellm.ai/docs/providers) and each provider's own page on OpenAI compatibility.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["openai", "azure", "anthropic", "vllm"]


@dataclass(frozen=True, slots=True)
class Provider:
    """How a provider is asked from here."""

    kind: Kind
    base_url: str | None
    """Where it is, if the file does not say; None: the file must."""
    key_variable: str | None
    """The environment variable that LiteLLM reads its key from; None: it needs no key."""
    suffix: str = ""
    """What the base URL of the file lacks of an OpenAI client's."""


def _openai(base_url: str | None, key_variable: str | None, suffix: str = "") -> Provider:
    return Provider("openai", base_url, key_variable, suffix)


PROVIDERS: dict[str, Provider] = {
    "openai": _openai("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "text-completion-openai": _openai("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "custom_openai": _openai(None, "OPENAI_API_KEY"),
    "openai_like": _openai(None, "OPENAI_LIKE_API_KEY"),
    "litellm_proxy": _openai(None, "LITELLM_PROXY_API_KEY"),
    "azure": Provider("azure", None, "AZURE_API_KEY"),
    "azure_text": Provider("azure", None, "AZURE_API_KEY"),
    "anthropic": Provider("anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
    "hosted_vllm": Provider("vllm", None, None),
    "vllm": Provider("vllm", None, None),
    "ollama": _openai("http://127.0.0.1:11434/v1", None, "/v1"),
    "ollama_chat": _openai("http://127.0.0.1:11434/v1", None, "/v1"),
    "lm_studio": _openai(None, None),
    "llamafile": _openai("http://127.0.0.1:8080/v1", None),
    "xinference": _openai(None, None),
    "gemini": _openai("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "mistral": _openai("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "codestral": _openai("https://codestral.mistral.ai/v1", "CODESTRAL_API_KEY"),
    "groq": _openai("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "deepseek": _openai("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "xai": _openai("https://api.x.ai/v1", "XAI_API_KEY"),
    "openrouter": _openai("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "together_ai": _openai("https://api.together.xyz/v1", "TOGETHERAI_API_KEY"),
    "fireworks_ai": _openai("https://api.fireworks.ai/inference/v1", "FIREWORKS_AI_API_KEY"),
    "perplexity": _openai("https://api.perplexity.ai", "PERPLEXITYAI_API_KEY"),
    "cohere": _openai("https://api.cohere.ai/compatibility/v1", "COHERE_API_KEY"),
    "cohere_chat": _openai("https://api.cohere.ai/compatibility/v1", "COHERE_API_KEY"),
    "cerebras": _openai("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "deepinfra": _openai("https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    "nvidia_nim": _openai("https://integrate.api.nvidia.com/v1", "NVIDIA_NIM_API_KEY"),
    "sambanova": _openai("https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY"),
    "huggingface": _openai("https://router.huggingface.co/v1", "HF_TOKEN"),
    "github": _openai("https://models.github.ai/inference", "GITHUB_API_KEY"),
    "cohere rerank": _openai("https://api.cohere.com", "COHERE_API_KEY"),
    "jina_ai": _openai("https://api.jina.ai/v1", "JINA_AI_API_KEY"),
    "voyage": _openai("https://api.voyageai.com/v1", "VOYAGE_API_KEY"),
    "infinity": _openai(None, "INFINITY_API_KEY"),
    "moonshot": _openai("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    "dashscope": _openai("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
    "volcengine": _openai("https://ark.cn-beijing.volces.com/api/v3", "VOLCENGINE_API_KEY"),
    "zai": _openai("https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
    "nebius": _openai("https://api.studio.nebius.ai/v1", "NEBIUS_API_KEY"),
    "novita": _openai("https://api.novita.ai/v3/openai", "NOVITA_API_KEY"),
    "hyperbolic": _openai("https://api.hyperbolic.xyz/v1", "HYPERBOLIC_API_KEY"),
    "lambda_ai": _openai("https://api.lambda.ai/v1", "LAMBDA_API_KEY"),
    "meta_llama": _openai("https://api.llama.com/compat/v1", "LLAMA_API_KEY"),
    "featherless_ai": _openai("https://api.featherless.ai/v1", "FEATHERLESS_AI_API_KEY"),
    "azure_ai": _openai(None, "AZURE_AI_API_KEY"),
    "databricks": _openai(None, "DATABRICKS_API_KEY"),
}

RERANKING = {"cohere": "cohere rerank", "cohere_chat": "cohere rerank"}
"""Providers that rerank at another address than they chat."""

_BEDROCK = (
    "its requests are signed with AWS credentials, which is not done here; Bedrock also takes an API key: an engine of kind "
    "openai with base_url https://bedrock-runtime.REGION.amazonaws.com/openai/v1, and api_key or api_key_command"
)
NOT_SPOKEN: dict[str, str] = {
    "bedrock": _BEDROCK,
    "bedrock_converse": _BEDROCK,
    "sagemaker": "its requests are signed with AWS credentials, which is not done here",
    "sagemaker_chat": "its requests are signed with AWS credentials, which is not done here",
    "vertex_ai": "its access tokens are fetched from Google and last an hour: an engine of kind openai with api_key_command "
    "does that; Gemini's own API takes a key (gemini/...)",
    "vertex_ai_beta": "its access tokens are fetched from Google and last an hour: an engine of kind openai with "
    "api_key_command does that",
    "watsonx": "its access tokens are fetched from IBM, which is not done here",
    "github_copilot": "its access tokens come from a sign-in at GitHub, which is not done here",
    "replicate": "it speaks an API of its own, which requests are not translated to",
    "predibase": "it speaks an API of its own, which requests are not translated to",
}
"""Providers that an engine cannot ask, and why."""

_BY_PREFIX = (
    ("gpt-", "openai"),
    ("chatgpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("text-embedding-", "openai"),
    ("dall-e", "openai"),
    ("whisper-", "openai"),
    ("tts-", "openai"),
    ("omni-moderation", "openai"),
    ("claude-", "anthropic"),
    ("gemini-", "vertex_ai"),
    ("command-", "cohere"),
    ("deepseek-", "deepseek"),
)


RESPONSES = "responses/"
"""Before a model's name: LiteLLM asks it by the Responses API, whichever a client has asked by."""
_ROUTES = {"azure": ("o_series/", "gpt5_series/"), "azure_ai": ("model_router/",)}
"""Before a deployment's name, by provider: how LiteLLM writes its requests."""


def provider_and_model(model: str, custom: str | None = None) -> tuple[str, str, bool]:
    """The provider's name, its own name for a model, and whether LiteLLM asks it by the Responses API only; of
    `litellm_params.model` and `custom_llm_provider`.

    A name without a provider is told by its beginning, as LiteLLM does with its list of models; else the provider is empty.
    """
    first, slash, rest = model.partition("/")
    if custom:
        provider, model = custom, model.removeprefix(f"{custom}/")
    elif slash and (first in PROVIDERS or first in NOT_SPOKEN):
        provider, model = first, rest
    else:
        bare = model.removeprefix(RESPONSES)
        provider = next((provider for begin, provider in _BY_PREFIX if bare.startswith(begin)), "")
    for route in _ROUTES.get(provider, ()):
        model = model.removeprefix(route)
    return provider, model.removeprefix(RESPONSES), model.startswith(RESPONSES)
