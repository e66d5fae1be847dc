"""Hears a chat completion, or its chunks. Pure."""

from __future__ import annotations

from typing import Any

from engines.answers.terminal import meaning_of
from engines.answers.usage import Told
from engines.codecs.parts import Hearing, Saying, failure_of
from engines.loose_json import listed, member, objects, text

_HEARD = frozenset(
    {
        *("role", "content", "refusal", "tool_calls", "thinking_blocks", "function_call"),
        # The same under several names, and what says nothing.
        *("reasoning_content", "reasoning", "reasoning_details"),
    }
)


class HearingChat(Hearing):
    """See Hearing. Of one choice: nobody who asks in another API can ask for several."""

    def __init__(self, to: Saying) -> None:
        super().__init__(to)
        self._told = Told()
        self._reason = ""
        self._stop_sequence: str | None = None
        self._calls: list[Any] = []
        """What tells each call from the others: its index, and its id."""

    def hear(self, event: dict[str, Any]) -> None:
        """See Hearing. Raises ValueError for calls that nobody can tell apart."""
        to = self.to
        if event.get("error"):
            to.fail(502, *failure_of(event))
            return
        if not to.begun:
            to.begin(text(event.get("id")), text(event.get("model")), event.get("created") or 0)
        choices = event.get("choices")
        if choices:
            self._hear_choice(choices[0])
        if event.get("usage") or not choices:
            self._hear_usage(event)
            if self._reason and not choices:
                self.done()

    def hear_whole(self, answer: dict[str, Any]) -> bool:
        """See Hearing."""
        if not objects(answer.get("choices")) or answer.get("error"):
            return False
        self.hear(answer)
        self.done()
        return self.to.ended

    def done(self) -> None:
        """See Hearing. The usage comes after the finish reason, so that it is over only here."""
        if self._reason:
            self.to.end(self._reason, self._stop_sequence)

    def _hear_choice(self, choice: dict[str, Any]) -> None:
        delta = choice.get("delta") or choice.get("message")
        if delta:
            content = delta.get("content")
            if isinstance(content, str) and len(delta) == 1 and not choice.get("logprobs"):
                # As nearly all chunks are.
                if content:
                    self.to.text(content)
            else:
                self._hear_delta(delta, choice)
        if choice.get("finish_reason"):
            self._reason = meaning_of(choice["finish_reason"])
            if self._reason == "error":
                self._reason = ""
                self.to.fail(502, *failure_of(choice))
            self._stop_sequence = text(choice.get("stop_reason")) or None
        if choice.get("usage"):
            # Where Moonshot tells it.
            self._hear_usage(choice)

    def _hear_delta(self, delta: dict[str, Any], choice: dict[str, Any]) -> None:
        to = self.to
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if thought and isinstance(thought, str):
            to.reasoning(thought)
        for block in objects(delta.get("thinking_blocks")):
            self._hear_seal(block)
        content = delta.get("content")
        if content and isinstance(content, str):
            logprobs = member(choice.get("logprobs"), "content")
            to.text(content, logprobs if isinstance(logprobs, list) else None)
        for part in objects(content):
            self._hear_part(part)
        if delta.get("refusal"):
            to.refusal(text(delta["refusal"]))
        for call in objects(delta.get("tool_calls")):
            self._hear_call(call)
        for name in delta.keys() - _HEARD:
            if delta[name]:
                to.lose(name)

    def _hear_part(self, part: dict[str, Any]) -> None:
        """A part of a content that is a list, as Mistral's are."""
        if part.get("type") == "thinking":
            for thought in listed(part.get("thinking")) or [part]:
                self.to.reasoning(text(member(thought, "text") or member(thought, "thinking")))
        elif part.get("type") == "text":
            self.to.text(text(part.get("text")))
        else:
            self.to.lose(str(part.get("type")))

    def _hear_seal(self, block: dict[str, Any]) -> None:
        kind = text(block.get("type"))
        held = block.get("data" if kind == "redacted_thinking" else "signature")
        if held:
            self.to.seal(kind, text(held))

    def _hear_call(self, call: dict[str, Any]) -> None:
        function = call.get("function") or call.get("custom") or {}
        if self._is_new(call):
            self._calls.append((call.get("index"), call.get("id")))
            custom = call.get("type") == "custom"
            self.to.call(text(call.get("id")), text(function.get("name")), custom=custom)
        arguments = function.get("arguments") or function.get("input")
        if arguments:
            self.to.arguments(arguments if isinstance(arguments, str) else str(arguments))

    def _is_new(self, call: dict[str, Any]) -> bool:
        """Tells whether a piece begins a call: by its id, whatever index it is said at, else by its index."""
        index, id = call.get("index"), call.get("id")
        if not self._calls:
            return True
        last_index, last_id = self._calls[-1]
        if id == last_id if id else index in (None, last_index):
            return False
        known = [each for place, each in self._calls] if id else [place for place, each in self._calls]
        if (id or index) in known:
            raise ValueError("The engine goes on with a call of a tool after another one began.")
        return True

    def _hear_usage(self, holder: dict[str, Any]) -> None:
        if self._told.hear(holder, ()) and (used := self._told.amounts()) is not None:
            details = self._told.usage.get("completion_tokens_details")
            self.to.use(used, member(details, "reasoning_tokens") or 0)
