"""How much a model is to think: OpenAI's efforts and Anthropic's thinking, each said by the other.

A budget of tokens is a share of the tokens that the answer may have, by effort; the shares are OpenRouter's
(https://openrouter.ai/docs/use-cases/reasoning-tokens, "Reasoning Effort Level"), at least 1,024 tokens, which is
Anthropic's least. Claude takes such a budget up to version 4.5; from 4.6 on it is asked for adaptive thinking with an
effort, and from 4.7 on it refuses budgets (https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from engines.loose_json import member, text

SHARES: Mapping[str, float] = {"minimal": 0.1, "low": 0.2, "medium": 0.5, "high": 0.8, "xhigh": 0.95}
"""The share of an answer's tokens that each effort may spend on thinking."""
LEAST_BUDGET_TOKENS = 1024
_OF_MESSAGES: Mapping[str, str] = {"minimal": "low"}
_SEALS: Mapping[str, tuple[str, str]] = {
    "thinking": ("anthropic.thinking:", "signature"),
    "redacted_thinking": ("anthropic.redacted:", "data"),
}
"""Before what a reasoning item holds of a block of Messages: its type's mark, and the member that is held."""
SEALED = frozenset(_SEALS)
"""The types of blocks of Messages that an engine alone can read, which other APIs keep for it."""
_TAKES_BUDGET = re.compile(r"claude-(?:[23]|[a-z]+-[34](?:[-.][0-5])?(?:[-@]20\d{6})?(?:-v\d.*)?$)")


def effort_of(fields: Mapping[str, Any]) -> str | None:
    """The effort, in OpenAI's words, that neutral fields ask for; None where they leave it to the engine."""
    if fields.get("reasoning_effort") is not None:
        return str(fields["reasoning_effort"])
    thinking, effort = fields.get("thinking"), fields.get("effort")
    if member(thinking, "type") == "disabled":
        return "none"
    if effort is not None:
        return str(effort)
    budget = member(thinking, "budget_tokens")
    limit = fields.get("max_completion_tokens")
    if not isinstance(budget, int) or not isinstance(limit, int) or limit <= 0:
        return None
    return min(SHARES, key=lambda effort: abs(SHARES[effort] - budget / limit))


def thinking_of(effort: str, model: str, max_tokens: int, *, unsigned: bool) -> dict[str, Any]:
    """The neutral fields `thinking` and `effort` that ask a model of Messages for an effort of OpenAI's.

    `unsigned`: it goes on with calls of tools whose thinking is not at hand; with a budget Claude refuses that.
    """
    if effort == "none":
        return {"thinking": {"type": "disabled"}}
    if _TAKES_BUDGET.search(model) is None:
        return {"thinking": {"type": "adaptive"}, "effort": _OF_MESSAGES.get(effort, effort)}
    if unsigned or max_tokens <= LEAST_BUDGET_TOKENS:
        return {}
    share = SHARES.get(effort, SHARES["xhigh"])
    budget = max(LEAST_BUDGET_TOKENS, int(max_tokens * share))
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def sealed(block: Mapping[str, Any]) -> str | None:
    """The `encrypted_content` of a reasoning item that keeps a block of Messages; None of one without a signature."""
    mark, name = _SEALS[block["type"]]
    held = block.get(name)
    return f"{mark}{held}" if held else None


def unsealed(item: Mapping[str, Any], thought: str) -> dict[str, Any] | None:
    """The block of Messages that a reasoning item keeps; None where it keeps none. `thought`: the text of the item."""
    held = text(item.get("encrypted_content"))
    for kind, (mark, name) in _SEALS.items():
        if held.startswith(mark):
            told = {"thinking": thought} if kind == "thinking" else {}
            return {"type": kind, **told, name: held.removeprefix(mark)}
    return None
