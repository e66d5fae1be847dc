"""Merges answers that have choices: chat completions and text completions, whose chunks differ in one member. Pure."""

from __future__ import annotations

from typing import Any

from engines.answers.answer import Assembled
from engines.answers.heard import Heard
from engines.answers.merging import merge_delta, merge_member, merge_repeated
from engines.answers.terminal import choices_of

_HEAD = frozenset({"id", "model", "created", "object"})
"""What every chunk repeats. Azure leaves it empty in its first one."""
_NO_PART = frozenset({"choices", "usage", "obfuscation"})
"""Members of a chunk that are no part of the answer, or are read apart."""
_OBJECTS = {"chat": "chat.completion", "completions": "text_completion"}


class Choices:
    """See engines.answers.answer.Merged."""

    def __init__(self, api: str = "chat") -> None:
        self._api = api
        self.understood = True
        self._answer: dict[str, Any] | None = None
        self._choices: dict[int, dict[str, Any]] = {}
        self._unmerged: list[str] = []

    def hear(self, event: dict[str, Any]) -> None:
        """See Merged."""
        choices = choices_of(event)
        if not isinstance(event.get("choices") or [], list) or len(choices) < len(event.get("choices") or ()):
            self.understood = False
        if self._answer is None:
            if "choices" not in event and "error" in event:
                return
            self._answer = {}
        for name, value in event.items():
            if name in _HEAD:
                self._answer[name] = value or self._answer.get(name, value)
            elif name not in _NO_PART:
                merge_repeated(self._answer, name, value, self._unmerged)
        for place, piece in enumerate(choices):
            self._hear_choice(piece, place)

    def _hear_choice(self, piece: dict[str, Any], place: int) -> None:
        index = piece.get("index")
        index = index if isinstance(index, int) else place
        if index not in self._choices:
            empty: dict[str, Any] = {"index": index, "finish_reason": None}
            said: dict[str, Any] = {"message": {}}
            self._choices[index] = empty | (said if self._api == "chat" else {"text": "", "logprobs": None})
        choice = self._choices[index]
        for name, value in piece.items():
            if name == "delta" and self._api == "chat":
                if isinstance(value, dict):
                    merge_delta(choice["message"], value, self._unmerged)
                elif value is not None:
                    self._unmerged.append(name)
            elif name == "text" and isinstance(value, str) and self._api == "completions":
                choice["text"] += value
            elif name not in ("index", "usage"):
                merge_member(choice, name, value, self._unmerged)

    def text_so_far(self) -> tuple[dict[str, Any], str, bool] | None:
        """(what every chunk repeats, the text, whether its role was told) of an answer that goes on; None if it said more
        than one choice of text, or has ended."""
        choice = self._choices.get(0, {})
        message = choice.get("message", {})
        more = any(value for name, value in message.items() if name not in ("role", "content"))
        text = message.get("content") or ""
        ended = choice.get("finish_reason") or choice.get("logprobs")
        if (
            not self.understood
            or self._unmerged
            or more
            or ended
            or self._choices.keys() - {0}
            or not isinstance(text, str)
        ):
            return None
        return self._answer or {}, text, bool(message.get("role"))

    def hear_whole(self, answer: dict[str, Any]) -> None:
        """See Merged."""
        if isinstance(answer.get("choices"), list):
            self._answer = answer
        self.understood = self.understood and "error" not in answer

    def assembled(self, heard: Heard) -> Assembled | None:
        """See Merged."""
        answer = self._answer
        if answer is None or not (self._choices or "choices" in answer or answer.get("object")):
            return None
        whole = self.understood and not self._unmerged
        if "choices" not in answer:
            answer = self._joined(heard)
            whole = whole and bool(self._choices) and all(c["finish_reason"] for c in self._choices.values())
        unmerged = tuple(dict.fromkeys(self._unmerged))
        if self._api == "chat":
            return Assembled(answer, whole, unmerged=unmerged, heard=heard)
        return Assembled(_as_chat(answer), whole, own=answer, unmerged=unmerged, heard=heard)

    def _joined(self, heard: Heard) -> dict[str, Any]:
        choices = [self._choices[index] for index in sorted(self._choices)]
        for choice in choices:
            if "message" in choice:
                choice["message"] = {"role": "assistant", "content": None} | choice["message"]
                for call in choice["message"].get("tool_calls") or ():
                    call.pop("index", None)
        joined = {**(self._answer or {}), "object": _OBJECTS[self._api], "choices": choices}
        return joined | ({"usage": heard.told.usage} if heard.told.usage else {})


def _as_chat(answer: dict[str, Any]) -> dict[str, Any]:
    """A text completion, said as a chat completion."""
    choices = [
        {
            "index": choice.get("index", 0),
            "message": {"role": "assistant", "content": choice.get("text")},
            "finish_reason": choice.get("finish_reason"),
        }
        for choice in choices_of(answer)
    ]
    return {k: v for k, v in answer.items() if k != "choices"} | {
        "object": "chat.completion",
        "choices": choices,
    }
