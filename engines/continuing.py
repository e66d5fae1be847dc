"""Which answers can be continued after they broke off, and what an engine is asked that is to continue one. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engines.chat import ChatRequest, estimated_tokens
from engines.engine import EngineRequest
from engines.partial_answer import PartialAnswer
from engines.seam import anchor_of, instruction

_NEVER_WITH = (
    "tools",
    "functions",
    "logprobs",
    "top_logprobs",
    "prompt_logprobs",
    "return_token_ids",
    "return_tokens_as_token_ids",
    "echo",
    "use_beam_search",
    "continue_final_message",
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "audio",
)
"""What cannot be continued: it constrains or describes the answer as a whole, token by token, or is not text."""


def continuable(chat: ChatRequest) -> bool:
    """Whether the answer to this request could be carried on if it broke off: one choice of plain text, streamed."""
    fields = chat.fields
    if chat.api != "chat" or not chat.stream or any(fields.get(name) for name in _NEVER_WITH):
        return False
    if fields.get("n") not in (None, 1) or fields.get("add_generation_prompt") is False:
        return False
    if fields.get("modalities") not in (None, ["text"]):
        return False
    form = fields.get("response_format")
    plain = form is None or (isinstance(form, dict) and form.get("type") == "text")
    return plain and bool(chat.messages) and chat.messages[-1].get("role") != "assistant"


def continuation(
    asked: EngineRequest, partial: PartialAnswer, tokens: int, *, instructed: bool
) -> EngineRequest:
    """The same, and to go on with the partial answer of so many tokens, within what is left of its limits.

    `instructed`: by an instruction to repeat its end (engines.seam), where the engine cannot be given its beginning.
    """
    chat = asked.chat
    assert chat is not None
    text, repeated = partial.text, 0
    changes: dict[str, Any] = {"stream": True}
    if text.strip() and instructed:
        anchor = anchor_of(text)
        # Half as much again: an estimate that is too low would cut the answer off.
        repeated = estimated_tokens(anchor) * 3 // 2
        said = {"role": "assistant", "content": text}
        changes["messages"] = [*chat.messages, said, {"role": "user", "content": instruction(anchor)}]
    elif text.strip():
        # Chat templates may strip the blanks at the end of a last message; the new engine would then say them again. So they
        # are left out here, and engines.partial_answer drops them from the beginning of what follows.
        changes["messages"] = [*chat.messages, {"role": "assistant", "content": text.rstrip()}]
        changes |= {"continue_final_message": True, "add_generation_prompt": False}
    for name in ("max_tokens", "max_completion_tokens"):
        if isinstance(limit := chat.fields.get(name), int):
            changes[name] = max(1, limit - tokens) + repeated
    if isinstance(least := chat.fields.get("min_tokens"), int):
        changes["min_tokens"] = max(0, least - tokens)
    headers = asked.headers.copy()
    for name in ("Content-Length", "Content-Encoding"):
        headers.popall(name, None)
    headers["Accept-Encoding"] = "identity"
    changed = chat.changed(changes)
    return replace(asked, headers=headers, body=changed.body, chat=changed)
