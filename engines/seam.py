"""Where an engine that was given a partial answer, and asked to repeat its end, goes on with it.

An API that cannot be given the beginning of its answer gets the partial one as its last message, and the user's word to
repeat the last words of it and go on. What it says is matched against these, or against the whole partial answer where it
starts over. What does not match is never used. Pure: it asks nobody.
"""

from __future__ import annotations

from engines.errors import Kind, StreamBroken

_ANCHOR_WORDS = 8
_ANCHOR_CHARACTERS = 200
"""At most, for eight words: not every language parts them by blanks."""
_HELD_CHARACTERS = 400
"""Beside twice the partial answer: so much may be said before it is known where the rest of the answer begins."""


def anchor_of(text: str) -> str:
    """The end of a partial answer that another engine is to repeat, so that the seam can be found.

    Its last eight words, and more where the answer began with the same ones: which of the two was repeated must show. All
    of it where that is shorter.
    """
    text, words = text.strip(), _ANCHOR_WORDS
    whole = _without_blanks(text)
    while True:
        start = _start_of_last(text, words)
        anchor = text[max(start, len(text) - words * _ANCHOR_CHARACTERS // _ANCHOR_WORDS) :]
        if len(anchor) == len(text) or not whole.startswith(_without_blanks(anchor)):
            return anchor
        words *= 2


def instruction(anchor: str) -> str:
    """What the user says to an engine that is to go on with a partial answer, and cannot be given its beginning."""
    return (
        "Your last message was cut off. Continue it from exactly where it stops. Begin by repeating its last words, which "
        "are written below, exactly and with nothing before them, and go on from there without any comment.\n\n"
        f"{anchor}"
    )


class NoMatch(StreamBroken):
    """What an engine said does not begin with the end of the partial answer, nor with the whole of it."""

    kind = Kind.INVALID

    def __init__(self) -> None:
        super().__init__("The engine that was to carry on said something else.")


class Seam:
    """Finds where what an engine says becomes new: after the anchor, or after the whole partial answer, blanks apart.

    `said` is fed each piece of its text and returns what is new in it. Raises NoMatch as soon as neither can be what it
    repeats, or after twice the partial answer and 400 characters.
    """

    def __init__(self, text: str) -> None:
        self._targets = [_without_blanks(anchor_of(text)), _without_blanks(text)]
        self._blanks = _blanks_at_end(text)
        self._left = 2 * len(text) + _HELD_CHARACTERS
        self._matched = 0
        """Characters that are no blanks, from the beginning of every target that is left."""
        self._repeated = False
        self._held = ""
        """Blanks that follow the repetition."""
        self.found = False
        """What was said so far is known to repeat the partial answer; all that follows is new."""

    def said(self, piece: str, *, last: bool = False) -> str:
        """The new text in `piece`; empty while nothing is new. `last`: nothing will follow it."""
        self._left -= len(piece)
        if not self._repeated:
            piece = self._after_repetition(piece)
        if self._repeated:
            self._held += piece
            if self._held.strip() or last:
                self.found = True
                return self._after_blanks(self._held)
        if last or self._left < 0:
            raise NoMatch
        return ""

    def _after_repetition(self, piece: str) -> str:
        plain, before = _without_blanks(piece), self._matched
        self._matched += len(plain)
        self._targets = [
            target
            for target in self._targets
            if (target[before : self._matched]) == plain[: len(target) - before]
        ]
        if not self._targets:
            raise NoMatch
        length = len(self._targets[0])
        if self._matched < length:
            return ""
        self._repeated = True
        return _after(piece, length - before)

    def _after_blanks(self, new: str) -> str:
        """The client has the blanks at the end of the partial answer. Where it was sent some, a word must not go on."""
        blanks = new[: len(new) - len(new.lstrip())]
        if not self._blanks:
            return new
        if new and not blanks:
            raise NoMatch
        return new[len(self._blanks) :] if blanks.startswith(self._blanks) else new[len(blanks) :]


def _without_blanks(text: str) -> str:
    return "".join(text.split())


def _blanks_at_end(text: str) -> str:
    return text[len(text.rstrip()) :]


def _start_of_last(text: str, words: int) -> int:
    """Where the last so many words begin."""
    parts = text.rsplit(maxsplit=words)
    if len(parts) <= words:
        return 0
    rest = text[len(parts[0]) :]
    return len(text) - len(rest.lstrip())


def _after(piece: str, characters: int) -> str:
    """What follows the first so many characters that are no blanks."""
    for place, character in enumerate(piece):
        if not characters:
            return piece[place:]
        characters -= not character.isspace()
    return ""
