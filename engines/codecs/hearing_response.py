"""Hears a response of `/v1/responses`, or its events. Pure."""

from __future__ import annotations

from typing import Any

from engines.answers.usage import Told
from engines.codecs.parts import Hearing, Saying, failure_of
from engines.codecs.thinking import unsealed
from engines.loose_json import listed, member, objects, text

_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})
_DELTAS = frozenset({"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"})
_THOUGHTS = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
_CALLS = frozenset({"function_call", "custom_tool_call"})


class HearingResponse(Hearing):
    """See Hearing."""

    def __init__(self, to: Saying) -> None:
        super().__init__(to)
        self._said: set[Any] = set()
        """Where in the output the items are of which pieces came."""
        self._thought = ("", 0)
        """Which part of the reasoning is being said: the event's name, and its place."""
        self._calls = False

    def hear(self, event: dict[str, Any]) -> None:
        """See Hearing."""
        to, kind = self.to, event.get("type")
        if kind == "response.output_text.delta":
            self._said.add(event.get("output_index"))
            to.text(event["delta"], event.get("logprobs") or None)
        elif kind in _DELTAS:
            self._said.add(event.get("output_index"))
            to.arguments(event["delta"])
        elif kind in _THOUGHTS:
            self._hear_thought(event)
        elif kind == "response.refusal.delta":
            self._said.add(event.get("output_index"))
            to.refusal(event["delta"])
        elif kind == "response.output_item.added":
            self._begin_item(event.get("item") or {})
        elif kind == "response.output_item.done":
            self._end_item(event.get("item") or {}, said=event.get("output_index") in self._said)
        elif kind in _LAST:
            self._end(event["response"])
        elif kind == "error":
            to.fail(502, *failure_of(event))
        elif isinstance(begun := event.get("response"), dict):
            self._begin(begun)

    def hear_whole(self, answer: dict[str, Any]) -> bool:
        """See Hearing."""
        if not isinstance(answer.get("output"), list):
            return False
        self._begin(answer)
        for item in objects(answer["output"]):
            self._begin_item(item)
            self._end_item(item, said=False)
        self._end(answer)
        return self.to.ended or self.to.failure is not None

    def _begin(self, response: dict[str, Any]) -> None:
        self.to.begin(text(response.get("id")), text(response.get("model")), response.get("created_at") or 0)

    def _begin_item(self, item: dict[str, Any]) -> None:
        kind = item.get("type")
        self._thought = ("", 0)
        if kind in _CALLS:
            self._calls = True
            custom = kind == "custom_tool_call"
            self.to.call(text(item.get("call_id")), text(item.get("name")), custom=custom)
        elif kind not in ("message", "reasoning"):
            self.to.lose(str(kind))

    def _hear_thought(self, event: dict[str, Any]) -> None:
        part = event["type"], event.get("summary_index") or event.get("content_index") or 0
        if not self._said.isdisjoint({event.get("output_index")}) and part != self._thought:
            if part[0] != self._thought[0]:
                # The reasoning, and then its summary: the first of the two is enough.
                return
            self.to.reasoning("\n\n")
        self._said.add(event.get("output_index"))
        self._thought = part
        self.to.reasoning(event["delta"])

    def _end_item(self, item: dict[str, Any], *, said: bool) -> None:
        """An item is over; what was not said of it in pieces is said now."""
        to, kind = self.to, item.get("type")
        if kind == "reasoning":
            if not said and (thought := _thought_in(item)):
                to.reasoning(thought)
            if item.get("encrypted_content"):
                self._hear_seal(item)
        elif said:
            return
        elif kind == "message":
            for part in objects(item.get("content")):
                self._hear_part(part)
        elif kind in _CALLS:
            to.arguments(text(item.get("arguments", item.get("input"))))

    def _hear_part(self, part: dict[str, Any]) -> None:
        if part.get("type") == "refusal":
            self.to.refusal(text(part.get("refusal")))
            return
        logprobs = listed(part.get("logprobs"))
        self.to.text(text(part.get("text")), logprobs or None)
        if part.get("annotations"):
            self.to.lose("annotations")

    def _hear_seal(self, item: dict[str, Any]) -> None:
        block = unsealed(item, "")
        if block is None:
            self.to.seal("encrypted_content", text(item["encrypted_content"]))
        else:
            self.to.seal(block["type"], text(block.get("signature") or block.get("data")))

    def _end(self, response: dict[str, Any]) -> None:
        self._begin(response)
        told = Told()
        if told.hear({"usage": response.get("usage")}, ()) and (used := told.amounts()) is not None:
            details = told.usage.get("output_tokens_details")
            self.to.use(used, member(details, "reasoning_tokens") or 0)
        status = response.get("status")
        if status in ("failed", "cancelled"):
            self.to.fail(502, *failure_of(response))
            return
        reason = "tool_calls" if self._calls else "stop"
        if status == "incomplete":
            why = member(response.get("incomplete_details"), "reason")
            reason = "content_filter" if why == "content_filter" else "length"
        self.to.end(reason)


def _thought_in(item: dict[str, Any]) -> str:
    parts = objects(item.get("summary")) or objects(item.get("content"))
    return "\n\n".join(text(part.get("text")) for part in parts)
