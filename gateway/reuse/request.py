"""Which requests may be answered with a similar question's answer at all, and what must be equal for it. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from engines.chat import ChatRequest
from router.asked import Controls, in_memory_of
from router.digest import carries_tools, is_plain_text, question
from store.answers.exact_key import exact_key

KEYLESS = "default"
"""In the settings: clients that come without one of the gateway's own keys."""

_NEVER_WITH = ("tools", "functions", "audio", "web_search_options")
"""Answers to these hang on more than the request's own text, or are more than text."""

_TEXTS = {"messages": ("messages", "system"), "responses": ("input", "instructions")}
"""Where an API has its texts, which are compared as the messages of a chat completion."""


@dataclass(frozen=True, slots=True)
class SemanticAsk:
    """A request that may be answered so, or whose answer may be given to others."""

    tenant: str
    delta: float
    chat: ChatRequest
    question: str
    """What is embedded and what the gates read: see router.digest."""
    endpoint: str
    """Path, query and headers: whatever of the request beside its body can change the answer."""
    served_by: str
    """Who would answer: policy, engines and their configuration."""
    reads: bool
    """Whether memory may be read for it, as opposed to only filled."""
    remembered_for: str
    """Whose answers are its own: see router.asked.Asked."""
    ignored_fields: Collection[str] = ()
    """Further fields of the body that change no answer of theirs."""

    def same_otherwise(self) -> bytes:
        """The name of all of the request but its last user text: only within it may an answer be reused."""
        messages = [dict(message) for message in self.chat.messages]
        last = max(i for i, message in enumerate(messages) if message.get("role") == "user")
        messages[last]["content"] = ""
        # As it came: what is said of it as a chat completion may leave out what changes its answer.
        texts = _TEXTS.get(self.chat.api, ())
        rest = {name: value for name, value in self.chat.own_fields.items() if name not in texts}
        fields = {**rest, "messages": messages}
        return exact_key(
            self.remembered_for, self.endpoint, f"semantic\n{self.served_by}", fields, self.ignored_fields
        )


def semantic_ask(
    chat: ChatRequest,
    controls: Controls,
    deltas: Mapping[str, float],
    *,
    tenant: str,
    key_id: str | None,
    endpoint: str,
    served_by: str,
    max_characters: int,
    ignored_fields: Collection[str] = (),
    end_user: str = "",
) -> SemanticAsk | None:
    """None unless the key opted in, the client left it to us, and everything in the request is one plain text each."""
    delta = deltas.get(key_id or KEYLESS)
    if delta is None or controls.no_store or controls.steers:
        return None
    if not _asks_plainly(chat):
        return None
    text = question(chat.messages)
    if not text or len(text) > max_characters:
        # What is cut before it is embedded would differ unseen.
        return None
    return SemanticAsk(
        tenant,
        delta,
        chat,
        text,
        endpoint,
        served_by,
        reads=not controls.no_cache,
        remembered_for=in_memory_of(tenant, end_user),
        ignored_fields=ignored_fields,
    )


def _asks_plainly(chat: ChatRequest) -> bool:
    """Tell if a request is plain texts, a user's among them, and asks for one text."""
    fields = chat.fields
    if fields.get("n", 1) not in (None, 1) or fields.get("modalities") not in (None, ["text"]):
        return False
    if carries_tools(chat) or any(fields.get(name) is not None for name in _NEVER_WITH):
        return False
    if not is_plain_text(chat.messages):
        return False
    asked = next((m for m in reversed(chat.messages) if m.get("role") == "user"), None)
    return asked is not None and isinstance(asked.get("content"), str)
