"""An answer that is made here, as its API's stream, while its text grows."""

from __future__ import annotations

import re
import secrets
from dataclasses import replace

import orjson

from engines.chat import ChatRequest
from engines.codecs.codec import Codec
from engines.codecs.said import Said
from engines.errors import RequestError

_NUMBER = re.compile(rb'\A(event: [^\n]*\ndata: \{"type":"[^"]*","sequence_number":)([0-9]+)')
_END = b"\n\n"


class Growing:
    """An answer as its API's stream, of which only the beginning of the text is known: `begun`, `piece` of each text that
    comes, and `ended` or `failed`.

    The codec says a whole answer as events. Its text stands in them as a mark, in whose place each piece is put in the
    event that tells a piece, and the whole text in those that follow it.
    """

    def __init__(self, codec: Codec, chat: ChatRequest, said: Said) -> None:
        self._codec = codec
        self._chat = chat
        self._mark = secrets.token_hex(8)
        self._pieces = 0
        before, self._piece, _ = self._around(said)
        self.begun = b"".join(before)
        """The events before the first piece."""
        self._number = len(before)

    def piece(self, text: str) -> bytes:
        """The event of the next piece."""
        event = _numbered(self._piece, self._pieces)
        self._pieces += 1
        return event.replace(self._quoted, orjson.dumps(text))

    def ended(self, said: Said) -> bytes:
        """The events after its last piece; `said`: the whole answer."""
        after, text = self._around(said)[2], orjson.dumps(said.text)
        moved = self._pieces - 1
        return b"".join(_numbered(event, moved).replace(self._quoted, text) for event in after)

    def failed(self, error: RequestError) -> bytes:
        """The event that says that it broke off here."""
        return self._codec.failed(error, number=self._number + self._pieces)

    @property
    def _quoted(self) -> bytes:
        return orjson.dumps(self._mark)

    def _around(self, said: Said) -> tuple[list[bytes], bytes, list[bytes]]:
        """(the events before the text, that of one piece, those that follow)."""
        whole = self._codec.said(replace(said, text=self._mark), self._chat)
        stream = self._codec.events(orjson.dumps(whole), self._chat)
        events = [event + _END for event in stream.removesuffix(_END).split(_END)]
        at = next(place for place, event in enumerate(events) if self._quoted in event)
        return events[:at], events[at], events[at + 1 :]


def _numbered(event: bytes, more: int) -> bytes:
    """The event with its number raised, in an API that numbers them."""
    return _NUMBER.sub(lambda found: found[1] + b"%d" % (int(found[2]) + more), event, count=1)
