"""What benchmarks.overhead asks: chat completions as the official SDK sends them, again and again or never seen before."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from benchmarks.overhead.load import chat_request

KNOWN_TEXTS = 48
SYSTEM = "You are a helpful assistant. Answer in two sentences."
VERBS = ("repair", "paint", "measure", "clean", "move", "insure", "photograph", "sell")
_NOUNS = ("garden fence", "old piano", "kitchen sink", "mountain bike", "wooden boat", "attic window")


class Questions:
    """Chat bodies: the same one, the same words as something new, or new words altogether. Never two alike by accident."""

    def __init__(self) -> None:
        self._serial = itertools.count(1)

    def body(self, text: str, *, unlike_any: bool, stream: bool = False, system: str = SYSTEM) -> bytes:
        """A chat body; `unlike_any` gives it a seed of its own, which makes it a request never seen before."""
        fields: dict[str, Any] = {
            "model": "bench",
            "messages": [
                {"role": "system", "content": system},
                {"role": "user", "content": text},
            ],
            "temperature": 0,
            "max_tokens": 256,
        }
        if unlike_any:
            fields["seed"] = next(self._serial)
        if stream:
            fields["stream"] = True
        return json.dumps(fields).encode()

    def text(self, n: int) -> str:
        """The n-th text: kinds of questions that come round again with another number in them."""
        verb, noun = VERBS[n % len(VERBS)], _NOUNS[n % len(_NOUNS)]
        return f"What is the best way to {verb} the {noun} at house number {n} in the spring, and what do I need?"

    def repeated(self) -> Iterator[bytes]:
        """A few requests, over and over."""
        known = [chat_request(self.body(self.text(n), unlike_any=False)) for n in range(KNOWN_TEXTS)]
        return itertools.cycle(known)

    def new_with_known_words(self) -> Iterator[bytes]:
        """Requests that differ in a parameter, so that no stored answer fits, in words that were embedded before."""
        for n in itertools.count():
            yield chat_request(self.body(self.text(n % KNOWN_TEXTS), unlike_any=True))

    def new_text(self) -> str:
        """A text never given before."""
        return self.text(1000 + next(self._serial))

    def new_with_new_words(self) -> Iterator[bytes]:
        """Requests in words never embedded before."""
        while True:
            yield chat_request(self.body(self.new_text(), unlike_any=True))
