"""Learns what the requests of a scope have in common, as they come, so that only what is *asked* is embedded.

Applications send one text around ever-new questions: a few hundred words of rules, then the question. An embedding of all of
it says how alike the rules are. So a text is taken in pieces (lines, and sentences within a line); a piece that stood in
several different texts of the same tenant and instructions is known, and left out of what is embedded. What was left out
must then be equal, and what is left must be similar, for two requests to count as alike.

Keeps hashes and counts only, in memory: nothing here can be read as text, and nothing is lost when it is forgotten. See
docs/explanation/examples.md.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from cachetools import LRUCache

from router.digest import shared_scope, user_scope
from router.spans import VARYING
from store.admission.cutting import EMBEDDED_CHARACTERS, cut
from store.records import Example

KNOWN_FROM = 4
"""Different texts in which a piece must have stood. Three past requests make one familiar: the fourth must know better."""
READ_CHARACTERS = 8000
"""The characters of a text that are read, its beginning and its end: no longer text becomes an example."""
_LEAST_LEFT_OUT = 120
"""Characters of a text from which known pieces are left out of it: behind 124 shared characters no two of 18 unrelated
questions have a cosine above 0.72, behind 245 one pair in ten has 0.8. A greeting and a thank-you stay."""
_LEAST_IN_A_ROW = 40
"""Characters of known pieces in a row from which they are left out of the middle of a text."""
_LEAST_SHARED = 120
"""Characters that two texts share, and half of the text, from which their similarity says nothing of the rest."""
_PIECES = 2048
"""Known of a scope; those that were met least lately are forgotten."""
_TEXTS = 512
_SCOPES = 128
_ANYBODY = "*"
T = TypeVar("T")

_ENDS = (". ", "! ", "? ", ": ", "; ", ">", '",')
"""The ends of a piece within a line: a sentence, a label, a tag, a field of JSON."""


@dataclass(frozen=True, slots=True)
class Digest:
    """The part of a text that is embedded."""

    text: str
    """The question itself: the text without what requests have in common; the text itself if nothing is known."""
    left_out: int = 0
    """Stands for the pieces that were left out; 0: none."""


@dataclass(slots=True)
class _Learnt:
    """The knowledge of one scope."""

    pieces: dict[int, tuple[int, str]] = field(default_factory=dict)
    """By hash, those met last at the end: the number of texts, and who sent them."""
    texts: dict[int, None] = field(default_factory=dict)
    """Hashes of the latest texts: one that comes again teaches nothing."""
    anything: bool = False
    """True if any piece became known so far."""
    kept_as: dict[int, int] = field(default_factory=dict)
    """From the hash of a piece with placeholders for private data to that of the piece as it was asked."""


class Templates:
    """Learns from every request and digests texts. Any thread may call any method; nothing waits or reads a store."""

    def __init__(self, *, scopes: int = _SCOPES, pieces: int = _PIECES) -> None:
        self._most_pieces = pieces
        self._learnt: LRUCache[tuple[str, str], _Learnt] = LRUCache(scopes)
        self._last: tuple[tuple[str, str] | None, _Learnt | None] = None, None
        """The tenant and scope that were asked for last, and what is known of it: a request's examples are all of one."""
        self._news: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self.changed = threading.Event()
        """Set when a piece became known."""

    def asked(self, tenant: str, scope: str, text: str) -> Digest:
        """Learns from a request's text and gives what of it is embedded."""
        read = cut(text, READ_CHARACTERS)
        pieces = list(_pieces(read))
        instructions, user = shared_scope(scope), user_scope(scope)
        with self._lock:
            learnt = self._of(tenant, instructions)
            if self._learn(learnt, read, pieces, user):
                self._news.add((tenant, instructions))
                self.changed.set()
            return _digest(learnt, read, pieces, user)

    def digest(self, tenant: str, scope: str, text: str) -> Digest:
        """Return what of a text would be embedded as of now. Learns nothing."""
        with self._lock:
            last, learnt = self._last
            if last != (tenant, scope):
                learnt = self._learnt.get((tenant, shared_scope(scope)))
                self._last = (tenant, scope), learnt
            if learnt is None or not learnt.anything:
                return Digest(cut(text, EMBEDDED_CHARACTERS))
            return _digest(learnt, text, list(_pieces(text)), user_scope(scope))

    def kept_as(self, tenant: str, scope: str, asked: str, kept: str) -> None:
        """Notes how admission wrote a text: a piece whose address became a placeholder is the same piece."""
        if asked == kept:
            return
        pairs = zip(_pieces(asked), _pieces(kept), strict=False)
        with self._lock:
            known = self._of(tenant, shared_scope(scope)).kept_as
            known.update((hash(after), hash(before)) for before, after in pairs if before != after)
            _forget_first(known, _TEXTS)

    def comparable(self, asked: Digest, example: Example) -> bool:
        """Tell if similarity of the embeddings says how alike the request and the example are.

        It does where the same was left out of both, the example's embedding is of what is left, and the two are not
        mostly the same text for a reason that nobody has learnt yet.
        """
        of_example = self.digest(example.tenant, example.scope, example.question)
        if of_example.left_out != asked.left_out or of_example.text != example.embedded_text:
            return False
        return asked.text == of_example.text or not _mostly_shared(asked.text, of_example.text)

    def news(self) -> set[tuple[str, str]]:
        """Tenants and instructions of which something became known since the last call."""
        with self._lock:
            news, self._news = self._news, set()
            self.changed.clear()
        return news

    def known(self) -> list[tuple[str, str]]:
        """Tenants and instructions of which something is remembered."""
        with self._lock:
            return list(self._learnt)

    def _of(self, tenant: str, instructions: str) -> _Learnt:
        learnt = self._learnt.get((tenant, instructions))
        if learnt is None:
            learnt = self._learnt[tenant, instructions] = _Learnt()
            # It was nothing before, and may have taken another's place.
            self._last = None, None
        return learnt

    def _learn(self, learnt: _Learnt, text: str, pieces: list[str], user: str) -> bool:
        """Counts the pieces of a new text. Whether one of them became known."""
        of_text = hash((user, text))
        again = of_text in learnt.texts
        learnt.texts.pop(of_text, None)
        learnt.texts[of_text] = None
        became_known = False
        for piece in dict.fromkeys(pieces):
            name = hash(piece)
            count, whose = learnt.pieces.pop(name, (0, user))
            if not again:
                count += 1
                # A date or an order number is what varies, however often it comes.
                if count == KNOWN_FROM and VARYING.search(piece):
                    count = 0
                became_known = became_known or count == KNOWN_FROM
            learnt.pieces[name] = count, whose if whose == user else _ANYBODY
        learnt.anything = learnt.anything or became_known
        _forget_first(learnt.texts, _TEXTS)
        _forget_first(learnt.pieces, self._most_pieces)
        return became_known


def _pieces(text: str) -> Iterator[str]:
    """Lines, and the sentences of a line."""
    read = cut(text, READ_CHARACTERS)
    for end in _ENDS:
        read = read.replace(end, end + "\n")
    return filter(None, map(str.strip, read.split("\n")))


def _digest(learnt: _Learnt, text: str, pieces: list[str], user: str) -> Digest:
    names = [learnt.kept_as.get(name, name) for name in map(hash, pieces)]
    known = [_is_known(learnt, name, user) for name in names]
    out = [place for run in _runs(known) if _counts(run, pieces) for place in run]
    if sum(len(pieces[place]) for place in out) < _LEAST_LEFT_OUT:
        return Digest(cut(text, EMBEDDED_CHARACTERS))
    away = frozenset(out)
    rest = "\n".join(piece for place, piece in enumerate(pieces) if place not in away)
    # If nothing is left the whole text must do; it is compared with texts of the very same pieces only.
    return Digest(cut(rest or text, EMBEDDED_CHARACTERS), hash(frozenset(names[place] for place in out)))


def _is_known(learnt: _Learnt, name: int, user: str) -> bool:
    count, whose = learnt.pieces.get(name, (0, ""))
    return count >= KNOWN_FROM and whose in (user, _ANYBODY)


def _runs(known: list[bool]) -> Iterator[range]:
    """Places of known pieces that stand in a row."""
    start = None
    for place, is_known in enumerate([*known, False]):
        if is_known and start is None:
            start = place
        elif not is_known and start is not None:
            yield range(start, place)
            start = None


def _counts(run: range, pieces: list[str]) -> bool:
    """At its head and at its tail a text is left out whatever its length; elsewhere a row of some length only."""
    at_an_end = run.start == 0 or run.stop == len(pieces)
    return at_an_end or sum(len(pieces[place]) for place in run) >= _LEAST_IN_A_ROW


def _mostly_shared(one: str, other: str) -> bool:
    """Tell if two different texts are the same for the greater part, word for word: at their ends, or by pieces."""
    if min(len(one), len(other)) < _LEAST_SHARED:
        return False
    head = _shared(one, other)
    tail = min(_shared(one[::-1], other[::-1]), min(len(one), len(other)) - head)
    others = frozenset(_pieces(other))
    pieces = sum(len(piece) for piece in _pieces(one) if piece in others)
    shared = max(head + tail, pieces)
    return shared >= _LEAST_SHARED and 2 * shared >= min(len(one), len(other))


def _shared(one: str, other: str) -> int:
    """Characters that two texts have in common at their beginning."""
    same, different = 0, min(len(one), len(other)) + 1
    while different - same > 1:
        middle = (same + different) // 2
        if one[:middle] == other[:middle]:
            same = middle
        else:
            different = middle
    return same


def _forget_first(met: dict[int, T], most: int) -> None:
    while len(met) > most:
        del met[next(iter(met))]
