"""The parts of an answer, whichever API it is from: what a hearer reads of one API, and a sayer says in another.

An answer begins, says any number of parts, and ends or fails:

- `begin`: its id, its model, and when it was made;
- `text`, `reasoning`, `refusal`: the next piece of each;
- `seal`: what only the engine that thought can read of its reasoning, of the kinds of engines.codecs.thinking;
- `call`, and then the pieces of its `arguments`: a call is over when anything else begins;
- `use`: the usage, as soon as it is told, and again when more of it is;
- `end`: why it ended, as a chat completion calls it; or `fail`.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from engines.chat import CHARACTERS_PER_TOKEN, ChatRequest, Usage, prompt_tokens
from engines.codecs.custom_tools import custom_names, input_of
from engines.codecs.thinking import SEALED
from engines.errors import RequestError

_MOST_LOST = 8
_PREFIXES = ("chatcmpl-", "msg_", "resp_", "cmpl-")


class Saying(ABC):
    """Says an answer to `chat` in the words of its API, part by part: as one object (`whole`), and while it `streams` as the
    events that tell it, which `take` gives."""

    def __init__(self, chat: ChatRequest, *, streams: bool) -> None:
        self.chat = chat
        self.usage = Usage(0, 0)
        self._tells_usage = False
        """Its engine told what it used."""
        self._characters = 0
        """How many were said in the parts that are over."""
        self.reasoning_tokens = 0
        self.begun = self.ended = False
        self.failure: RequestError | None = None
        """How it broke off, where it did."""
        self.lost: set[str] = set()
        """Names of what it held that this API has no word for."""
        self.number = 0
        """Of the next event, in an API that numbers them."""
        self._streams = streams
        self._out: list[bytes] = []
        self._custom = custom_names(chat)
        self._kind = ""
        """Of the part that is being said; empty between two."""
        self._pieces: list[str] = []
        """Of that part, so far."""
        self._unwraps = False
        """It is a call of a custom tool, whose text is inside the arguments of a function."""
        self._reason = ""
        """Why it ended; empty before."""

    # ---- what a hearer calls

    def begin(self, id: str = "", model: str = "", created_s: float = 0) -> None:
        """It has begun. Only the first of these counts."""
        if self.begun:
            return
        self.begun = True
        for prefix in _PREFIXES:
            id = id.removeprefix(prefix)
        self._begin(id or uuid.uuid4().hex, model or self.chat.model, int(created_s or time.time()))

    def text(self, piece: str, logprobs: list[Any] | None = None) -> None:
        """The next piece of its text. `logprobs`: of the tokens in it, as a chat completion has them."""
        if self._kind != "text":
            self._open("text")
        self._pieces.append(piece)
        self._say_text(piece, logprobs)

    def reasoning(self, piece: str) -> None:
        """The next piece of what the model thinks."""
        if self._kind != "reasoning":
            self._open("reasoning")
        self._pieces.append(piece)
        self._say_reasoning(piece)

    def seal(self, kind: str, held: str) -> None:
        """What its engine alone can read of the reasoning that was said last, or of reasoning that it does not show."""
        if kind not in SEALED:
            self.lose(kind)
            return
        if kind != "thinking" or self._kind != "reasoning":
            self._open("reasoning")
        self._seal(kind, held)
        self._close()

    def refusal(self, piece: str) -> None:
        """The next piece of its refusal to answer."""
        if self._kind != "refusal":
            self._open("refusal")
        self._pieces.append(piece)
        self._say_refusal(piece)

    def call(self, id: str, name: str, *, custom: bool = False) -> None:
        """A call of a tool begins. `custom`: of one that takes a text, and no JSON."""
        self._close()
        self._unwraps = not custom and name in self._custom
        self._kind = "custom" if custom or self._unwraps else "call"
        self._begin_call(id or f"call_{uuid.uuid4().hex[:24]}", name)

    def arguments(self, piece: str) -> None:
        """The next piece of what the tool is called with. Raises ValueError where no call is being said."""
        if self._kind not in ("call", "custom"):
            raise ValueError("a call goes on that is over")
        self._pieces.append(piece)
        if not self._unwraps:
            self._say_arguments(piece)

    def use(self, usage: Usage, reasoning_tokens: int = 0) -> None:
        """What it has used. The last word of it stands; where there is none it is estimated."""
        self._tells_usage = True
        self.usage, self.reasoning_tokens = usage, reasoning_tokens

    def end(self, reason: str, stop_sequence: str | None = None) -> None:
        """It is over, and why: `stop`, `length`, `tool_calls`, `content_filter` or `pause_turn`."""
        if self.ended or self.failure is not None:
            return
        self.begin()
        self._reason = reason = reason or "stop"
        self._close()
        if not self._tells_usage:
            said = -(-self._characters // CHARACTERS_PER_TOKEN)
            self.usage = Usage(prompt_tokens(self.chat.messages), said, estimated=True)
        self.ended = True
        self._end(reason, stop_sequence)

    def fail(self, status: int, message: str, code: str) -> None:
        """It broke off."""
        self.failure = self.failure or RequestError(message, status=status, code=code)

    def ping(self) -> None:
        """Nothing was said, and more will come."""
        if self._streams:
            self._out.append(b": ping\n\n")

    def lose(self, name: str) -> None:
        """Something was said that this API has no word for. Few of these are told, under names that can be names."""
        if len(self.lost) < _MOST_LOST:
            self.lost.add(name if name.isidentifier() else "other")

    # ---- what came of it

    def take(self) -> bytes:
        """The events that were said since this was asked last."""
        said = b"".join(self._out)
        self._out.clear()
        return said

    @abstractmethod
    def whole(self) -> dict[str, Any]:
        """All of it, as one object."""
        ...

    # ---- what each API says in its own way

    def _open(self, kind: str) -> None:
        """A part of this kind begins."""
        self._close()
        self._kind = kind
        self._begin_part(kind)

    def _close(self) -> None:
        """The part that is being said is over."""
        if not self._kind:
            return
        said = "".join(self._pieces)
        self._characters += len(said)
        if self._unwraps:
            said = input_of(said)
            self._say_arguments(said)
        self._end_part(self._kind, said)
        self._kind, self._unwraps = "", False
        self._pieces.clear()

    @abstractmethod
    def _begin(self, id: str, model: str, created_s: int) -> None: ...

    @abstractmethod
    def _begin_part(self, kind: str) -> None: ...

    @abstractmethod
    def _begin_call(self, id: str, name: str) -> None: ...

    @abstractmethod
    def _say_text(self, piece: str, logprobs: list[Any] | None) -> None: ...

    @abstractmethod
    def _say_reasoning(self, piece: str) -> None: ...

    @abstractmethod
    def _say_refusal(self, piece: str) -> None: ...

    @abstractmethod
    def _say_arguments(self, piece: str) -> None: ...

    @abstractmethod
    def _seal(self, kind: str, held: str) -> None: ...

    @abstractmethod
    def _end_part(self, kind: str, said: str) -> None: ...

    @abstractmethod
    def _end(self, reason: str, stop_sequence: str | None) -> None: ...


class Hearing(ABC):
    """Reads an answer of one API, and has its parts said."""

    def __init__(self, to: Saying) -> None:
        self.to = to

    @abstractmethod
    def hear(self, event: dict[str, Any]) -> None:
        """The next event of its stream."""
        ...

    @abstractmethod
    def hear_whole(self, answer: dict[str, Any]) -> bool:
        """An answer that came in one piece. Returns whether it is one of this API."""
        ...

    def done(self) -> None:
        """Nothing more comes, by `[DONE]` or the end of the body. An answer that has not ended by its own word was cut."""
        return


def failure_of(event: Mapping[str, Any]) -> tuple[str, str]:
    """(message, code) of an error, whichever API words it."""
    told = event.get("error")
    if not isinstance(told, dict):
        told = event if told is None else {"message": told}
    message = told.get("message") or told.get("detail") or "The engine failed in the middle of its answer."
    code = told.get("code") or told.get("type")
    return str(message), "upstream_error" if code in (None, "error") else str(code)
