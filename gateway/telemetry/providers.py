"""Which provider is asked, in the words of the GenAI conventions (`gen_ai.provider.name`).

And which hosts are a provider's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

_BY_HOST = (
    ("api.openai.com", "openai"),
    ("api.anthropic.com", "anthropic"),
    ("openai.azure.com", "azure.ai.openai"),
    ("cognitiveservices.azure.com", "azure.ai.openai"),
    ("services.ai.azure.com", "azure.ai.inference"),
    ("models.ai.azure.com", "azure.ai.inference"),
    ("amazonaws.com", "aws.bedrock"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.groq.com", "groq"),
    ("api.deepseek.com", "deepseek"),
    ("api.cohere.com", "cohere"),
    ("api.cohere.ai", "cohere"),
    ("api.perplexity.ai", "perplexity"),
    ("api.x.ai", "x_ai"),
    ("ml.cloud.ibm.com", "ibm.watsonx.ai"),
)
_FURTHER_HOSTS = (
    *(
        "openrouter.ai",
        "api.together.xyz",
        "api.together.ai",
        "api.fireworks.ai",
        "api.moonshot.ai",
        "api.moonshot.cn",
    ),
    *(
        "api.cerebras.ai",
        "api.sambanova.ai",
        "api.z.ai",
        "open.bigmodel.cn",
        "api.deepinfra.com",
        "api.minimax.io",
    ),
    *(
        "dashscope.aliyuncs.com",
        "dashscope-intl.aliyuncs.com",
        "integrate.api.nvidia.com",
        "router.huggingface.co",
    ),
)
_ANYBODYS = frozenset({"amazonaws.com"})
"""Below it are servers of whoever rents them, too."""
_BY_KIND = {"anthropic": "anthropic", "azure": "azure.ai.openai", "vllm": "vllm", "vllm-local": "vllm"}
_OTHERS = "openai"
"""Whoever else speaks OpenAI's API: the name stands for the form of what is asked."""


def providers(kinds: Mapping[str, str]) -> Callable[[str, str], str]:
    """What gives the provider of an engine, by its name and host; `kinds` are the engines' configured kinds by name."""

    def provider_of(engine: str, host: str) -> str:
        for suffix, provider in _BY_HOST:
            if host == suffix or host.endswith("." + suffix):
                return provider
        return _BY_KIND.get(kinds.get(engine, ""), _OTHERS)

    return provider_of


def is_providers_own(host: str) -> bool:
    """Whether a provider of models answers at this host itself, and nobody in between."""
    hosts = (*(suffix for suffix, _ in _BY_HOST if suffix not in _ANYBODYS), *_FURTHER_HOSTS)
    return any(host == one or host.endswith("." + one) for one in hosts)
