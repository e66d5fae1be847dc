"""What a request's answer is billed: pure arithmetic over what was used and the prices of who gave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engines.chat import Usage
from engines.engine import Price

COST = "x-understudy-cost"
"""The header that tells the client. US dollars; `unpriced` where nobody knows."""


def billed_usd(price: Price, usage: Usage, broken_off: Sequence[tuple[Price, int]] = ()) -> float | None:
    """What all engines that had a part in an answer are paid, in US dollars; None where a part of it has no price.

    `broken_off`: engines that gave its beginning, the price of each, and how many tokens it gave. Each is paid for the
    prompt, what came before and what it added.
    """
    if not broken_off:
        return price.cost_usd(usage)
    dollars, before = 0.0, 0
    for its_price, tokens in broken_off:
        part = its_price.cost_usd(Usage(usage.prompt_tokens + before, tokens))
        if part is None:
            return None
        dollars += part
        before += tokens
    rest = replace(
        usage,
        prompt_tokens=usage.prompt_tokens + before,
        completion_tokens=max(0, usage.completion_tokens - before),
    )
    last = price.cost_usd(rest)
    return None if last is None else dollars + last


def without_examples(usage: Usage, example_tokens: int) -> Usage:
    """The same without examples of ours in its prompt. Of what was cached, as much as still can be."""
    prompt_tokens = max(0, usage.prompt_tokens - example_tokens)
    cached_tokens = min(usage.cached_tokens, prompt_tokens)
    written = min(usage.cache_write_tokens, prompt_tokens - cached_tokens)
    return replace(
        usage, prompt_tokens=prompt_tokens, cached_tokens=cached_tokens, cache_write_tokens=written
    )


def shown(dollars: float | None) -> str:
    """A cost as the header says it: `0.00000125`, `0`, `unpriced`."""
    if dollars is None:
        return "unpriced"
    return f"{dollars:.10f}".rstrip("0").rstrip(".") or "0"
