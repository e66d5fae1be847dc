"""Usage as APIs and providers tell it, and the tokens that are due for it, counted by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Due = tuple[int, int, int, int]
"""Tokens of the prompt, of the answer, of the prompt read from a cache, and written to one."""
Place = Literal["top", "choice", "x_groq", "every", "delta"]
"""Where it stands: beside the choices; in the last choice; under Groq's member, if streamed; in every chunk, growing; all of
it in the last event but one of a message."""


@dataclass(frozen=True)
class Told:
    """One usage object."""

    provider: str
    case: str
    api: str
    usage: dict[str, Any]
    due: Due
    place: Place = "top"

    @property
    def name(self) -> str:
        return f"{self.api}-{self.provider}-{self.case}"


def counted(prompt: int, completion: int, total: int | None = None, **more: Any) -> dict[str, Any]:
    """As OpenAI's chat completions count."""
    sum_ = prompt + completion if total is None else total
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": sum_} | more


def responded(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    """As OpenAI's Responses count."""
    return {
        "input_tokens": prompt,
        "output_tokens": completion,
        "total_tokens": prompt + completion,
    } | more


def messaged(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    """As Anthropic's Messages count: what was read from a cache and written to one is beside the prompt."""
    return {"input_tokens": prompt, "output_tokens": completion} | more


def cached(tokens: int | None, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens_details": {"cached_tokens": tokens} | more}


def reasoned(tokens: int | None, **more: Any) -> dict[str, Any]:
    return {"completion_tokens_details": {"reasoning_tokens": tokens} | more}


def _chat() -> Iterator[tuple[str, str, dict[str, Any], Due, Place]]:
    yield "openai", "plain", counted(1000, 500), (1000, 500, 0, 0), "top"
    yield "openai", "cached", counted(2006, 300, **cached(1920)), (2006, 300, 1920, 0), "top"
    yield "openai", "reasoning", counted(75, 1186, **cached(0), **reasoned(1024)), (75, 1186, 0, 0), "top"
    audio = cached(0, audio_tokens=30) | reasoned(0, audio_tokens=40)
    yield "openai", "audio", counted(50, 60, **audio), (50, 60, 0, 0), "top"
    predicted = reasoned(0, accepted_prediction_tokens=20, rejected_prediction_tokens=11)
    yield "openai", "predicted", counted(300, 45, **predicted), (300, 45, 0, 0), "top"
    yield "openai", "nothing said", counted(40, 0), (40, 0, 0, 0), "top"
    yield (
        "azure",
        "null details",
        counted(31, 9, prompt_tokens_details=None, completion_tokens_details=None),
        (31, 9, 0, 0),
        "top",
    )
    yield "azure", "empty details", counted(31, 9, prompt_tokens_details={}), (31, 9, 0, 0), "top"
    yield "azure", "null count", counted(31, 9, **cached(None)), (31, 9, 0, 0), "top"
    yield (
        "openrouter",
        "cost",
        counted(194, 20, cost=0.95, is_byok=False, **cached(100), cost_details={"upstream": None}),
        (194, 20, 100, 0),
        "top",
    )
    yield (
        "openrouter",
        "written",
        counted(10_000, 60, **cached(6_000, cache_write_tokens=3_000)),
        (10_000, 60, 6_000, 3_000),
        "top",
    )
    yield "groq", "own member", counted(24, 377, queue_time=0.03, total_time=0.8), (24, 377, 0, 0), "x_groq"
    yield "groq", "cached", counted(4641, 1817, **cached(4608)), (4641, 1817, 4608, 0), "x_groq"
    yield "together", "plain", counted(37, 3, cached_tokens=0), (37, 3, 0, 0), "top"
    yield "together", "cached", counted(4000, 30, cached_tokens=3900), (4000, 30, 3900, 0), "top"
    yield "xai", "reasoning beside", counted(32, 9, 135, **reasoned(94)), (32, 103, 0, 0), "top"
    yield (
        "xai",
        "cached, reasoning beside",
        counted(10_120, 1_499, 14_428, **cached(7_000), **reasoned(2_809)),
        (10_120, 4_308, 7_000, 0),
        "top",
    )
    yield "xai", "no reasoning", counted(37, 530, **reasoned(0), num_sources_used=0), (37, 530, 0, 0), "top"
    yield "gemini", "thought", counted(12, 8, 620), (12, 608, 0, 0), "top"
    yield "gemini", "growing", counted(12, 8, 620), (12, 608, 0, 0), "every"
    yield "gemini", "only thought", {"prompt_tokens": 12, "total_tokens": 612}, (12, 600, 0, 0), "top"
    yield "gemini", "said zero", counted(12, 0, 612), (12, 600, 0, 0), "top"
    yield "mistral", "plain", counted(10, 24), (10, 24, 0, 0), "top"
    yield "mistral", "audio", counted(10, 24, prompt_audio_seconds=5), (10, 24, 0, 0), "top"
    yield "moonshot", "in the choice", counted(19, 13), (19, 13, 0, 0), "choice"
    yield (
        "moonshot",
        "cached, in the choice",
        counted(2_000, 13, cached_tokens=1_900),
        (2_000, 13, 1_900, 0),
        "choice",
    )
    hits = {"prompt_cache_hit_tokens": 320, "prompt_cache_miss_tokens": 20}
    yield "deepseek", "hits and misses", counted(340, 22, **hits), (340, 22, 320, 0), "top"
    yield (
        "deepseek",
        "hits and details",
        counted(340, 22, **hits, **cached(320), **reasoned(15)),
        (340, 22, 320, 0),
        "top",
    )
    yield "vllm", "null details", counted(15, 28, prompt_tokens_details=None), (15, 28, 0, 0), "top"
    yield "vllm", "growing", counted(15, 28), (15, 28, 0, 0), "every"
    yield "sglang", "reasoning inside", counted(11, 20, reasoning_tokens=15), (11, 20, 0, 0), "top"
    yield "ollama", "plain", counted(26, 298), (26, 298, 0, 0), "top"
    yield "llamacpp", "cached", counted(18, 6, **cached(12)), (18, 6, 12, 0), "top"
    yield (
        "perplexity",
        "growing",
        counted(8, 439, search_context_size="low", cost={"total_cost": 0.006}),
        (8, 439, 0, 0),
        "every",
    )
    yield "cerebras", "cached", counted(68, 40, **cached(64), **reasoned(9)), (68, 40, 64, 0), "top"
    yield "cohere", "plain", counted(60, 4), (60, 4, 0, 0), "top"
    yield "fireworks", "cached", counted(500, 7, **cached(480)), (500, 7, 480, 0), "top"
    litellm = {"cache_read_input_tokens": 700, "cache_creation_input_tokens": 200}
    yield "litellm", "of Anthropic", counted(1_000, 50, **litellm), (1_000, 50, 700, 200), "top"
    yield "proxy", "without a sum", {"prompt_tokens": 7, "completion_tokens": 3}, (7, 3, 0, 0), "top"
    yield "proxy", "in floats", {"prompt_tokens": 7.0, "completion_tokens": 3.0}, (7, 3, 0, 0), "top"
    yield "proxy", "in other words", responded(70, 30), (70, 30, 0, 0), "top"
    yield "proxy", "more cached than asked", counted(10, 3, **cached(50)), (10, 3, 10, 0), "top"


def _completions() -> Iterator[tuple[str, str, dict[str, Any], Due, Place]]:
    yield "openai", "plain", counted(5, 7), (5, 7, 0, 0), "top"
    yield "vllm", "cached", counted(500, 7, **cached(496)), (500, 7, 496, 0), "top"
    yield "vllm", "growing", counted(5, 16), (5, 16, 0, 0), "every"
    yield "deepseek", "fill in", counted(80, 12, prompt_cache_hit_tokens=64), (80, 12, 64, 0), "top"
    yield "together", "plain", counted(9, 2), (9, 2, 0, 0), "top"
    yield "fireworks", "cached", counted(90, 4, **cached(80)), (90, 4, 80, 0), "top"
    yield "llamacpp", "plain", counted(18, 128), (18, 128, 0, 0), "top"


def _responses() -> Iterator[tuple[str, str, dict[str, Any], Due, Place]]:
    def details(cached: int, reasoning: int) -> dict[str, Any]:
        return {
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens_details": {"reasoning_tokens": reasoning},
        }

    yield "openai", "plain", responded(36, 87, **details(0, 0)), (36, 87, 0, 0), "top"
    yield "openai", "cached", responded(3_600, 87, **details(3_456, 0)), (3_600, 87, 3_456, 0), "top"
    yield "openai", "reasoning", responded(81, 1_035, **details(0, 832)), (81, 1_035, 0, 0), "top"
    yield "azure", "plain", responded(20, 11, **details(0, 0)), (20, 11, 0, 0), "top"
    yield "openrouter", "cost", responded(20, 11, cost=0.1, **details(4, 0)), (20, 11, 4, 0), "top"
    yield (
        "xai",
        "sources",
        responded(199, 150, num_sources_used=2, **details(163, 70)),
        (199, 150, 163, 0),
        "top",
    )
    yield "groq", "plain", responded(82, 266, **details(0, 0)), (82, 266, 0, 0), "top"
    yield "vllm", "bare", responded(12, 5), (12, 5, 0, 0), "top"


def _messages() -> Iterator[tuple[str, str, dict[str, Any], Due, Place]]:
    def cache(read: int | None, written: int | None) -> dict[str, Any]:
        return {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}

    split = {"cache_creation": {"ephemeral_5m_input_tokens": 148, "ephemeral_1h_input_tokens": 100}}
    searched = {"server_tool_use": {"web_search_requests": 1}}
    yield "anthropic", "plain", messaged(25, 150, **cache(0, 0)), (25, 150, 0, 0), "top"
    yield "anthropic", "read", messaged(21, 393, **cache(1_888, 0)), (1_909, 393, 1_888, 0), "top"
    yield "anthropic", "written", messaged(21, 393, **cache(0, 1_888)), (1_909, 393, 0, 1_888), "top"
    yield (
        "anthropic",
        "both",
        messaged(50, 503, **cache(1_800, 248), **split),
        (2_098, 503, 1_800, 248),
        "top",
    )
    yield (
        "anthropic",
        "searched",
        messaged(6_039, 931, **cache(0, 0), **searched),
        (6_039, 931, 0, 0),
        "delta",
    )
    yield "anthropic", "all at the end", messaged(10, 51, **cache(100, 7)), (117, 51, 100, 7), "delta"
    yield "bedrock", "null cache", messaged(17, 9, **cache(None, None)), (17, 9, 0, 0), "top"
    yield "vertex", "tier", messaged(17, 9, service_tier="standard", **cache(4, 0)), (21, 9, 4, 0), "top"
    yield (
        "deepseek",
        "read",
        messaged(12, 30, **cache(64, 0), service_tier="standard"),
        (76, 30, 64, 0),
        "delta",
    )
    yield "moonshot", "bare", messaged(14, 8), (14, 8, 0, 0), "delta"
    yield "vllm", "bare", messaged(5, 6), (5, 6, 0, 0), "delta"


def _embeddings() -> Iterator[tuple[str, str, dict[str, Any], Due, Place]]:
    yield "openai", "plain", {"prompt_tokens": 8, "total_tokens": 8}, (8, 0, 0, 0), "top"
    yield "azure", "plain", {"prompt_tokens": 9, "total_tokens": 9}, (9, 0, 0, 0), "top"
    yield "mistral", "zero completion", counted(15, 0, prompt_audio_seconds=None), (15, 0, 0, 0), "top"
    yield "vllm", "null details", counted(5, 0, prompt_tokens_details=None), (5, 0, 0, 0), "top"
    yield "jina", "sum first", {"total_tokens": 6, "prompt_tokens": 6}, (6, 0, 0, 0), "top"
    yield "voyage", "only a sum", {"total_tokens": 10}, (10, 0, 0, 0), "top"


_BY_API = {
    "chat": _chat,
    "completions": _completions,
    "responses": _responses,
    "messages": _messages,
    "embeddings": _embeddings,
}
TOLD: tuple[Told, ...] = tuple(
    Told(provider, case, api, usage, due, place)
    for api, cases in _BY_API.items()
    for provider, case, usage, due, place in cases()
)
UNREADABLE: tuple[Any, ...] = (
    None,
    [],
    "12",
    {},
    {"prompt_tokens": "many", "completion_tokens": "more"},
    {"prompt_tokens": -1, "completion_tokens": -5},
    {"prompt_tokens": True, "completion_tokens": True},
    {"prompt_tokens": 1e30, "completion_tokens": 1e30},
)
"""What nobody can book: then it is estimated."""
