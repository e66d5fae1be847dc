"""Whether an upstream's refusal says that the request is too long for its context window, and how long a request is.

Every API words it otherwise, so this is a table of wordings. Refuses to know who is asked instead (engines.attempts).
"""

from __future__ import annotations

import json
import re

from engines.chat import ChatRequest, estimated_tokens, message_text
from engines.error_texts import error_texts

STATUSES = frozenset({400, 413, 422})
"""What such a refusal comes with: TGI says 422, Groq and proxies 413."""
_WORDINGS = re.compile(
    r"context_length_exceeded"  # OpenAI, Azure, Groq
    r"|exceed_context_size|exceeds the available context size"  # llama.cpp
    r"|maximum (?:context|model|prompt) (?:length|limit)"  # OpenAI, vLLM, Mistral, Fireworks, DeepSeek, OpenRouter; xAI
    r"|max_model_len"  # vLLM
    r"|model's context length|(?:greater|longer) than the context length"  # SGLang, LM Studio
    r"|prompt is too long|exceeds? (?:the )?context limit"  # Anthropic
    r"|exceeds? (?:the |its |your )?(?:model's )?context window|context window exceeds"  # OpenAI's responses, MiniMax
    r"|token count\b.{0,40}\bexceeds"  # Gemini, GitHub's models
    r"|too many (?:input )?tokens|exceeded model token limit|input token limit"  # Cohere, Bedrock, Moonshot
    r"|input is too long|input length and `?max_tokens`?"  # Bedrock
    r"|`inputs` (?:tokens \+|must have less than)"  # TGI, Together
    r"|reduce the length of the (?:messages|prompt|input)|reduce your message size"  # Groq, Cerebras
    r"|range of input length should be|prompt exceeds max length"  # DashScope, Zhipu
    r"|'?(?:messages|prompt|input)[^']{0,40}'?: string too long",  # OpenAI's string_above_max_length
    re.IGNORECASE | re.DOTALL,
)


def says_too_long(status: int, body: bytes) -> bool:
    """Whether this error answer says that the request, not one of its parameters, is too long for the model."""
    if status not in STATUSES:
        return False
    return any(_WORDINGS.search(said.text) for said in error_texts(body))


def estimated_request_tokens(chat: ChatRequest) -> int:
    """Tokens of the prompt, roughly: its texts and tools at four characters a token. Pictures count as nothing."""
    texts = sum(estimated_tokens(message_text(message.get("content"))) for message in chat.messages)
    tools = chat.fields.get("tools")
    return texts + (len(json.dumps(tools)) // 4 if tools else 0)


def surely_too_long(chat: ChatRequest, context_tokens: int | None) -> bool:
    """Whether a window of so many tokens is under two thirds of what the request is estimated to need."""
    # A body is longer than the texts in it, so most requests need no look at those.
    if context_tokens is None or len(chat.body) // 4 * 2 <= context_tokens * 3:
        return False
    return estimated_request_tokens(chat) * 2 > context_tokens * 3
