"""Answers as providers say them, in a stream and in one piece, written from their documentation.

Each is the same answer twice. `whole` says what a repeat has to hold, whichever way it was first given; members that only
one of the two ways has are in that way alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Event = Mapping[str, Any] | bytes
"""An event's data, or bytes as they are sent."""


@dataclass(frozen=True)
class Shape:
    """One provider's answer."""

    name: str
    stream: tuple[Event, ...]
    whole: dict[str, Any]
    due: tuple[int, int, int, int]
    """Tokens that are due: of the prompt, of the answer, of the prompt read from a cache, and written to one."""
    api: str = "chat"
    asked: dict[str, Any] = field(default_factory=dict)
    """Fields of the request."""

    @property
    def path(self) -> str:
        return {"chat": "/chat/completions"}.get(self.api, "/" + self.api)

    def body(self) -> list[bytes]:
        """The stream's bytes, event by event."""
        events = [each if isinstance(each, bytes) else encoded(each) for each in self.stream]
        return events if self.api == "messages" else [*events, b"data: [DONE]\n\n"]


def encoded(event: Mapping[str, Any]) -> bytes:
    """A server-sent event; with its type in a line of its own if it has one."""
    kind = f"event: {event['type']}\n" if "type" in event else ""
    return f"{kind}data: {json.dumps(event)}\n\n".encode()


class Says:
    """Makes one provider's chunks and its whole answer, all with one head."""

    def __init__(self, id: str, model: str, **head: Any) -> None:
        self.head = {
            "id": id,
            "object": "chat.completion.chunk",
            "created": 1760000000,
            "model": model,
        } | head

    def __call__(
        self,
        delta: dict[str, Any] | None = None,
        finish: str | None = None,
        choice: dict[str, Any] | None = None,
        **top: Any,
    ) -> dict[str, Any]:
        """A chunk with one choice; without `delta` and `finish` one without choices."""
        if delta is None and finish is None:
            return self.head | {"choices": []} | top
        said = {"index": 0, "delta": delta or {}, "finish_reason": finish} | (choice or {})
        return self.head | {"choices": [said]} | top

    def whole(
        self,
        message: dict[str, Any],
        usage: dict[str, Any],
        finish: str = "stop",
        choice: dict[str, Any] | None = None,
        **top: Any,
    ) -> dict[str, Any]:
        """The answer in one piece."""
        said = {"index": 0, "message": {"role": "assistant"} | message, "finish_reason": finish}
        return (
            self.head
            | {"object": "chat.completion", "choices": [said | (choice or {})], "usage": usage}
            | top
        )


SAFE = {"hate": {"filtered": False, "severity": "safe"}, "violence": {"filtered": False, "severity": "safe"}}


def azure() -> Shape:
    """Its first chunk is about the prompt and names neither id nor model."""
    says = Says("chatcmpl-Az1", "gpt-4o-2024-11-20", system_fingerprint="fp_ee1d74bde0")
    prompt = [{"prompt_index": 0, "content_filter_results": SAFE | {"jailbreak": {"filtered": False}}}]
    usage = {
        "prompt_tokens": 2006,
        "completion_tokens": 9,
        "total_tokens": 2015,
        "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    empty = {"choices": [], "created": 0, "id": "", "model": "", "object": ""}
    return Shape(
        "azure",
        (
            empty | {"prompt_filter_results": prompt},
            says({"role": "assistant", "content": "", "refusal": None}, None, {"content_filter_results": {}}),
            says({"content": "The answer"}, None, {"content_filter_results": SAFE, "logprobs": None}),
            says({"content": " is 42."}, None, {"content_filter_results": SAFE, "logprobs": None}),
            says({}, "stop", {"content_filter_results": {}, "logprobs": None}),
            says(usage=usage),
        ),
        says.whole(
            {"content": "The answer is 42."},
            usage,
            choice={"content_filter_results": SAFE},
            prompt_filter_results=prompt,
        ),
        (2006, 9, 1920, 0),
    )


def openrouter() -> Shape:
    """Comments keep the connection open; the provider's own finish reason stands beside OpenAI's."""
    says = Says("gen-1760-abc", "anthropic/claude-sonnet-4.5", provider="Anthropic")
    details = [
        {"type": "reasoning.text", "text": "Let me", "format": "anthropic-claude-v1", "index": 0},
        {"type": "reasoning.text", "text": " count.", "format": "anthropic-claude-v1", "index": 0},
        {"type": "reasoning.text", "signature": "EqQBCg==", "format": "anthropic-claude-v1", "index": 0},
    ]
    usage = {
        "prompt_tokens": 194,
        "completion_tokens": 20,
        "total_tokens": 214,
        "cost": 0.00088,
        "is_byok": False,
        "prompt_tokens_details": {"cached_tokens": 100},
        "completion_tokens_details": {"reasoning_tokens": 12},
        "cost_details": {"upstream_inference_cost": None},
    }
    none = {"native_finish_reason": None, "logprobs": None}
    return Shape(
        "openrouter",
        (
            b": OPENROUTER PROCESSING\n\n",
            b": OPENROUTER PROCESSING\n\n",
            says(
                {"role": "assistant", "content": "", "reasoning": "Let me", "reasoning_details": details[:1]},
                None,
                none,
            ),
            says({"content": "", "reasoning": " count.", "reasoning_details": details[1:2]}, None, none),
            says({"content": "", "reasoning": None, "reasoning_details": details[2:]}, None, none),
            says({"content": "Forty"}, None, none),
            says({"content": "-two."}, None, none),
            says({"content": ""}, "stop", {"native_finish_reason": "end_turn", "logprobs": None}),
            says({"role": "assistant", "content": ""}, None, none, usage=usage),
        ),
        says.whole(
            {"content": "Forty-two.", "reasoning": "Let me count.", "reasoning_details": details},
            usage,
            choice={"native_finish_reason": "end_turn"},
        ),
        (194, 20, 100, 0),
    )


def groq() -> Shape:
    """Usage stands under a member of its own in the last chunk."""
    says = Says("chatcmpl-groq-1", "llama-3.3-70b-versatile", system_fingerprint="fp_fcc3b74982")
    usage = {
        "queue_time": 0.0377,
        "prompt_tokens": 24,
        "prompt_time": 0.0006,
        "completion_tokens": 377,
        "completion_time": 0.855,
        "total_tokens": 401,
        "total_time": 0.8556,
    }
    return Shape(
        "groq",
        (
            says(
                {"role": "assistant", "content": ""}, None, {"logprobs": None}, x_groq={"id": "req_01jbd6g2"}
            ),
            says({"content": "Fast language"}, None, {"logprobs": None}),
            says({"content": " models."}, None, {"logprobs": None}),
            says({}, "stop", {"logprobs": None}, x_groq={"id": "req_01jbd6g2", "usage": usage}),
        ),
        says.whole({"content": "Fast language models."}, usage, x_groq={"id": "req_01jbd6g2"}),
        (24, 377, 0, 0),
    )


def together() -> Shape:
    """Each delta names its token; the text stands beside it once more; the end is `eos`."""
    says = Says("oEBXBQx-4YNCb4", "meta-llama/Llama-3.3-70B-Instruct-Turbo")
    usage = {"prompt_tokens": 37, "completion_tokens": 3, "total_tokens": 40, "cached_tokens": 0}

    def piece(token: int, text: str, finish: str | None = None, seed: int | None = None) -> dict[str, Any]:
        delta = {"token_id": token, "role": "assistant", "content": text, "tool_calls": None}
        beside = {"text": text, "logprobs": None, "seed": seed}
        return says(delta, finish, beside, usage=usage if finish else None)

    return Shape(
        "together",
        (
            piece(22691, "New"),
            piece(4356, " York"),
            piece(128009, "", "eos", 15412470149135700000),
        ),
        says.whole({"content": "New York"}, usage, "eos", {"seed": 15412470149135700000}),
        (37, 3, 0, 0),
    )


def xai() -> Shape:
    """Reasoning is counted beside the completion's tokens; sources come with the last chunk."""
    says = Says("e5c2c6f1-xai", "grok-4", system_fingerprint="fp_156d35dcaa")
    usage = {
        "prompt_tokens": 32,
        "completion_tokens": 9,
        "total_tokens": 135,
        "prompt_tokens_details": {"text_tokens": 32, "cached_tokens": 6},
        "completion_tokens_details": {"reasoning_tokens": 94},
        "num_sources_used": 2,
    }
    sources = ["https://x.ai/news", "https://docs.x.ai/"]
    return Shape(
        "xai",
        (
            says({"role": "assistant", "reasoning_content": "Thinking", "content": ""}),
            says({"role": "assistant", "reasoning_content": " hard."}),
            says({"role": "assistant", "content": "Grok"}),
            says({"role": "assistant", "content": " is here."}),
            says({"role": "assistant", "content": ""}, "stop"),
            says(usage=usage, citations=sources),
        ),
        says.whole(
            {"content": "Grok is here.", "reasoning_content": "Thinking hard."}, usage, citations=sources
        ),
        (32, 103, 6, 0),
    )


def gemini() -> Shape:
    """Its total is more than the sum of both parts by what was thought; each chunk tells the usage so far."""
    says = Says("Zt0LaeXqGd6Y", "models/gemini-2.5-pro")
    google = {"google": {"thought_signature": "CpcGAY89a18="}}
    usage = {"completion_tokens": 8, "prompt_tokens": 12, "total_tokens": 620}
    return Shape(
        "gemini",
        (
            says(
                {"role": "assistant", "content": "AI learns"},
                usage={"completion_tokens": 2, "prompt_tokens": 12, "total_tokens": 600},
            ),
            says({"role": "assistant", "content": " from data.", "extra_content": google}, usage=usage),
            says({"role": "assistant"}, "stop", usage=usage),
        ),
        says.whole({"content": "AI learns from data.", "extra_content": google}, usage),
        (12, 608, 0, 0),
    )


def mistral() -> Shape:
    """Magistral's content is a list of blocks while it thinks, and text afterwards."""
    says = Says("cmpl-mistral-1", "magistral-medium-2509")
    usage = {"prompt_tokens": 10, "completion_tokens": 24, "total_tokens": 34}

    def thinks(text: str) -> list[dict[str, Any]]:
        return [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]

    return Shape(
        "mistral",
        (
            says({"role": "assistant", "content": ""}, p="abcd"),
            says({"content": thinks("Six times seven")}, p="abcdefgh"),
            says({"content": thinks(" is easy.")}, p="ab"),
            says({"content": "It is"}, p="abcde"),
            says({"content": " 42."}, p="abc"),
            says({"content": ""}, "stop", usage=usage, p="abcdef"),
        ),
        says.whole(
            {"content": [*thinks("Six times seven is easy."), {"type": "text", "text": "It is 42."}]}, usage
        ),
        (10, 24, 0, 0),
    )


def moonshot() -> Shape:
    """Usage stands inside the last choice."""
    says = Says("cmpl-04ea926191a14749", "kimi-k2-thinking", system_fingerprint="fpv0_ff52a3ef")
    usage = {"prompt_tokens": 19, "completion_tokens": 13, "total_tokens": 32, "cached_tokens": 10}
    return Shape(
        "moonshot",
        (
            says({"role": "assistant", "content": ""}),
            says({"reasoning_content": "Greeting."}),
            says({"content": "Hello, "}),
            says({"content": "Li Lei!"}),
            says({}, "stop", {"usage": usage}),
        ),
        says.whole({"content": "Hello, Li Lei!", "reasoning_content": "Greeting."}, usage),
        (19, 13, 10, 0),
    )


def deepseek() -> Shape:
    """Content is null while it reasons; hits and misses of its cache are counted by their own names."""
    says = Says("1f633d8b-deepseek", "deepseek-reasoner", system_fingerprint="fp_a49d71b8a1")
    usage = {
        "prompt_tokens": 340,
        "completion_tokens": 22,
        "total_tokens": 362,
        "prompt_tokens_details": {"cached_tokens": 320},
        "completion_tokens_details": {"reasoning_tokens": 15},
        "prompt_cache_hit_tokens": 320,
        "prompt_cache_miss_tokens": 20,
    }
    return Shape(
        "deepseek",
        (
            says({"role": "assistant", "content": None, "reasoning_content": ""}, usage=None),
            says({"content": None, "reasoning_content": "9.11 or"}, usage=None),
            says({"content": None, "reasoning_content": " 9.8?"}, usage=None),
            says({"content": "9.8 is", "reasoning_content": None}, usage=None),
            says({"content": " greater.", "reasoning_content": None}, usage=None),
            says({"content": "", "reasoning_content": None}, "stop", {"logprobs": None}, usage=usage),
        ),
        says.whole({"content": "9.8 is greater.", "reasoning_content": "9.11 or 9.8?"}, usage),
        (340, 22, 320, 0),
    )


def vllm() -> Shape:
    """All members of its model are written, most of them null."""
    says = Says("chatcmpl-vllm-1", "Qwen/Qwen3-8B", service_tier=None)
    usage = {
        "prompt_tokens": 15,
        "total_tokens": 43,
        "completion_tokens": 28,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    none = {"logprobs": None, "stop_reason": None, "token_ids": None}
    delta = {"reasoning": None, "reasoning_content": None, "tool_calls": None}
    first = {"prompt_token_ids": None, "prompt_logprobs": None, "kv_transfer_params": None}
    return Shape(
        "vllm",
        (
            says(delta | {"role": "assistant", "content": ""}, None, none, **first),
            says(delta | {"reasoning": "Hm", "reasoning_content": "Hm"}, None, none),
            says(delta | {"content": "Yes"}, None, none),
            says(delta | {"content": ", sir"}, None, none),
            says({}, "stop", none | {"stop_reason": 151645}),
            says(usage=usage),
        ),
        says.whole(
            {"content": "Yes, sir", "reasoning": "Hm", "reasoning_content": "Hm"},
            usage,
            choice={"stop_reason": 151645},
        ),
        (15, 28, 8, 0),
    )


def vllm_token_ids() -> Shape:
    """The same with `return_token_ids`: tokens come in lists, chunk by chunk."""
    says = Says("chatcmpl-vllm-2", "Qwen/Qwen3-8B")
    usage = {"prompt_tokens": 3, "total_tokens": 7, "completion_tokens": 4}
    return Shape(
        "vllm_token_ids",
        (
            says(
                {"role": "assistant", "content": ""},
                None,
                {"token_ids": None},
                prompt_token_ids=[151644, 872, 198],
            ),
            says({"content": "One"}, None, {"token_ids": [3966]}),
            says({"content": " two"}, None, {"token_ids": [1378, 11]}),
            says({}, "stop", {"stop_reason": None, "token_ids": [151645]}),
            says(usage=usage),
        ),
        says.whole(
            {"content": "One two"},
            usage,
            choice={"token_ids": [3966, 1378, 11, 151645]},
            prompt_token_ids=[151644, 872, 198],
        ),
        (3, 4, 0, 0),
        asked={"return_token_ids": True},
    )


def vllm_completions() -> Shape:
    """`/v1/completions` of vLLM, whose members are all written, too."""
    head = {"id": "cmpl-vllm-3", "created": 1760000000, "model": "Qwen/Qwen3-8B"}
    usage = {"prompt_tokens": 5, "total_tokens": 9, "completion_tokens": 4}
    none = {"logprobs": None, "stop_reason": None, "prompt_token_ids": None, "token_ids": None}

    def piece(text: str, finish: str | None = None, **changes: Any) -> dict[str, Any]:
        choice = {"index": 0, "text": text, "finish_reason": finish} | none | changes
        return head | {"object": "text_completion", "choices": [choice], "usage": None}

    whole = {"index": 0, "text": "upon a time", "finish_reason": "stop", "stop_reason": "</s>"}
    return Shape(
        "vllm_completions",
        (
            piece("upon"),
            piece(" a time"),
            piece("", "stop", stop_reason="</s>"),
            head | {"object": "text_completion", "choices": [], "usage": usage},
        ),
        head | {"object": "text_completion", "choices": [whole], "usage": usage},
        (5, 4, 0, 0),
        api="completions",
    )


def sglang() -> Shape:
    """What matched to end it is told beside the finish reason."""
    says = Says("5c3b9a-sglang", "deepseek-ai/DeepSeek-V3")
    usage = {
        "prompt_tokens": 11,
        "total_tokens": 16,
        "completion_tokens": 5,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
    }
    none = {"logprobs": None, "matched_stop": None}
    delta = {"role": None, "reasoning_content": None, "tool_calls": None}
    return Shape(
        "sglang",
        (
            says(delta | {"role": "assistant", "content": ""}, None, none, usage=None),
            says(delta | {"content": "Paris"}, None, none, usage=None),
            says(delta | {"content": "."}, None, none, usage=None),
            says(delta | {"content": None}, "stop", none | {"matched_stop": 151645}, usage=None),
            says(usage=usage),
        ),
        says.whole({"content": "Paris."}, usage, choice={"matched_stop": 151645}),
        (11, 5, 0, 0),
    )


def ollama() -> Shape:
    """Thinking is called `reasoning`; usage comes with the finish reason's successor."""
    says = Says("chatcmpl-529", "qwen3:8b", system_fingerprint="fp_ollama")
    usage = {"prompt_tokens": 26, "completion_tokens": 14, "total_tokens": 40}
    return Shape(
        "ollama",
        (
            says({"role": "assistant", "content": "", "reasoning": "The sky"}),
            says({"role": "assistant", "content": "", "reasoning": " question."}),
            says({"role": "assistant", "content": "Rayleigh"}),
            says({"role": "assistant", "content": " scattering."}),
            says({"role": "assistant", "content": ""}, "stop"),
            says(usage=usage),
        ),
        says.whole({"content": "Rayleigh scattering.", "reasoning": "The sky question."}, usage),
        (26, 14, 0, 0),
    )


def llamacpp() -> Shape:
    """Speeds are told in the last chunk."""
    says = Says("chatcmpl-Xq3", "gemma-3-4b", system_fingerprint="b6432-77dee9d9")
    usage = {"completion_tokens": 6, "prompt_tokens": 18, "total_tokens": 24}
    timings = {
        "cache_n": 0,
        "prompt_n": 18,
        "prompt_ms": 98.7,
        "prompt_per_second": 182.3,
        "predicted_n": 6,
        "predicted_ms": 131.2,
        "predicted_per_second": 45.7,
    }
    return Shape(
        "llamacpp",
        (
            says({"role": "assistant", "content": None}),
            says({"content": "Hello"}),
            says({"content": " there"}),
            says({}, "stop"),
            says(usage=usage, timings=timings),
        ),
        says.whole({"content": "Hello there"}, usage, timings=timings),
        (18, 6, 0, 0),
    )


def openai() -> Shape:
    """Chunks are padded against eavesdroppers; annotations come as a list."""
    says = Says(
        "chatcmpl-CR1", "gpt-4o-search-preview", service_tier="default", system_fingerprint="fp_50906f2aac"
    )
    cited = [
        {
            "type": "url_citation",
            "url_citation": {"start_index": n, "end_index": n + 1, "url": f"https://e.org/{n}", "title": "E"},
        }
        for n in (0, 1)
    ]
    usage = {
        "prompt_tokens": 1500,
        "completion_tokens": 11,
        "total_tokens": 1511,
        "prompt_tokens_details": {"cached_tokens": 1024, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "accepted_prediction_tokens": 0},
    }
    return Shape(
        "openai",
        (
            says({"role": "assistant", "content": "", "refusal": None}, usage=None, obfuscation="a9b8c7"),
            says({"content": "Sunny"}, usage=None, obfuscation="x"),
            says({"content": " today."}, usage=None, obfuscation="abcdefgh"),
            says({"annotations": cited[:1]}, usage=None, obfuscation="abc"),
            says({"annotations": cited[1:]}, usage=None, obfuscation="abcd"),
            says({}, "stop", {"logprobs": None}, usage=None, obfuscation="qwer"),
            says(usage=usage, obfuscation=""),
        ),
        says.whole({"content": "Sunny today.", "annotations": cited}, usage),
        (1500, 11, 1024, 0),
    )


def openai_audio() -> Shape:
    """Sound and its transcript come piece by piece inside one member."""
    says = Says("chatcmpl-Au1", "gpt-4o-audio-preview")
    usage = {
        "prompt_tokens": 14,
        "completion_tokens": 60,
        "total_tokens": 74,
        "completion_tokens_details": {"text_tokens": 10, "audio_tokens": 50},
    }
    return Shape(
        "openai_audio",
        (
            says({"role": "assistant", "refusal": None, "audio": {"id": "audio_68", "transcript": "Good"}}),
            says({"audio": {"data": "AAAA"}}),
            says({"audio": {"transcript": " morning."}}),
            says({"audio": {"data": "BBBB"}}),
            says({"audio": {"expires_at": 1760003600}}),
            says({}, "stop"),
            says(usage=usage),
        ),
        says.whole(
            {
                "audio": {
                    "id": "audio_68",
                    "transcript": "Good morning.",
                    "data": "AAAABBBB",
                    "expires_at": 1760003600,
                }
            },
            usage,
        ),
        (14, 60, 0, 0),
    )


def perplexity() -> Shape:
    """Each chunk tells all sources and the usage so far, and the message so far beside its delta."""
    says = Says("8f3a-pplx", "sonar-pro")
    sources = ["https://a.example/", "https://b.example/"]
    results = [{"title": "A", "url": sources[0], "date": None}, {"title": "B", "url": sources[1]}]

    def piece(text: str, so_far: str, tokens: int, finish: str | None = None) -> dict[str, Any]:
        beside = {"message": {"role": "assistant", "content": so_far}}
        usage = {"prompt_tokens": 8, "completion_tokens": tokens, "total_tokens": 8 + tokens}
        return says(
            {"role": "assistant", "content": text},
            finish,
            beside,
            usage=usage | {"search_context_size": "low"},
            citations=sources,
            search_results=results,
        )

    return Shape(
        "perplexity",
        (
            piece("Two", "Two", 1),
            piece(" sources", "Two sources", 2),
            piece(" say so.", "Two sources say so.", 5),
            piece("", "Two sources say so.", 5, "stop"),
        ),
        says.whole(
            {"content": "Two sources say so."},
            {"prompt_tokens": 8, "completion_tokens": 5, "total_tokens": 13, "search_context_size": "low"},
            citations=sources,
            search_results=results,
        ),
        (8, 5, 0, 0),
    )


def cerebras() -> Shape:
    """Times are told in an object of the last chunk."""
    says = Says("chatcmpl-cere", "gpt-oss-120b", system_fingerprint="fp_70185065")
    usage = {
        "prompt_tokens": 68,
        "completion_tokens": 40,
        "total_tokens": 108,
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    times = {"queue_time": 0.0002, "prompt_time": 0.001, "completion_time": 0.02, "total_time": 0.03}
    return Shape(
        "cerebras",
        (
            says({"role": "assistant"}),
            says({"reasoning": "Quick."}),
            says({"content": "Very"}),
            says({"content": " fast"}),
            says({}, "stop", usage=usage, time_info=times),
        ),
        says.whole({"content": "Very fast", "reasoning": "Quick."}, usage, time_info=times),
        (68, 40, 64, 0),
    )


def cohere() -> Shape:
    """Its compatible API ends with Cohere's own reason."""
    says = Says("cohere-1", "command-a-03-2025")
    usage = {"prompt_tokens": 60, "completion_tokens": 4, "total_tokens": 64}
    return Shape(
        "cohere",
        (
            says({"role": "assistant", "content": ""}),
            says({"content": "Bonjour"}),
            says({}, "COMPLETE", usage=usage),
        ),
        says.whole({"content": "Bonjour"}, usage, "COMPLETE"),
        (60, 4, 0, 0),
    )


def sparse() -> Shape:
    """A small server that leaves out whatever it can: index, created, an object in its last delta."""
    head = {"id": "s-1", "object": "chat.completion.chunk", "created": 0, "model": "tiny"}
    usage = {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}
    return Shape(
        "sparse",
        (
            b"event: ping\ndata: {}\n\n",
            head | {"choices": [{"delta": {"role": "assistant", "content": "Hel"}}], "created": 1760000000},
            b"event: ping\ndata: {}\n\n",
            head | {"choices": [{"delta": {"content": "lo"}, "finish_reason": None}]},
            head | {"choices": [{"delta": None, "finish_reason": "stop"}]},
            head | {"choices": None, "usage": None},
            {"id": "s-1", "object": "chat.completion.chunk", "usage": usage},
        ),
        head
        | {
            "object": "chat.completion",
            "created": 1760000000,
            "choices": [
                {"message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop", "index": 0}
            ],
            "usage": usage,
        },
        (4, 2, 0, 0),
    )


def anthropic() -> Shape:
    """Thinking with its signature, text with its sources, and what was cleared of the context told at the end."""
    cited = {
        "type": "char_location",
        "cited_text": "The grass is green.",
        "document_index": 0,
        "document_title": "Doc",
        "start_char_index": 0,
        "end_char_index": 20,
    }
    managed = {"applied_edits": [{"type": "clear_thinking_20251015", "cleared_input_tokens": 500}]}
    used = {
        "input_tokens": 25,
        "cache_creation_input_tokens": 200,
        "cache_read_input_tokens": 1000,
        "service_tier": "standard",
    }
    head = {
        "id": "msg_013Zva2C",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "stop_sequence": None,
    }
    thinking = {"type": "thinking", "thinking": "The document says so.", "signature": "EuYBCkQYAiJA=="}
    text = {"type": "text", "text": "The grass is green.", "citations": [cited]}
    delta = "content_block_delta"
    stream: tuple[Event, ...] = (
        {
            "type": "message_start",
            "message": head | {"content": [], "stop_reason": None, "usage": used | {"output_tokens": 1}},
        },
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {"type": "ping"},
        {"type": delta, "index": 0, "delta": {"type": "thinking_delta", "thinking": "The document"}},
        {"type": delta, "index": 0, "delta": {"type": "thinking_delta", "thinking": " says so."}},
        {"type": delta, "index": 0, "delta": {"type": "signature_delta", "signature": "EuYBCkQYAiJA=="}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "text", "text": "", "citations": []},
        },
        {"type": delta, "index": 1, "delta": {"type": "citations_delta", "citation": cited}},
        {"type": delta, "index": 1, "delta": {"type": "text_delta", "text": "The grass"}},
        {"type": delta, "index": 1, "delta": {"type": "text_delta", "text": " is green."}},
        {"type": "content_block_stop", "index": 1},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 89},
            "context_management": managed,
        },
        {"type": "message_stop"},
    )
    whole = head | {
        "content": [thinking, text],
        "stop_reason": "end_turn",
        "usage": used | {"output_tokens": 89},
        "context_management": managed,
    }
    return Shape("anthropic", stream, whole, (1225, 89, 1000, 200), api="messages")


SHAPES: tuple[Shape, ...] = tuple(
    make()
    for make in (
        anthropic,
        azure,
        cerebras,
        cohere,
        deepseek,
        gemini,
        groq,
        llamacpp,
        mistral,
        moonshot,
        ollama,
        openai,
        openai_audio,
        openrouter,
        perplexity,
        sglang,
        sparse,
        together,
        vllm,
        vllm_completions,
        vllm_token_ids,
        xai,
    )
)
