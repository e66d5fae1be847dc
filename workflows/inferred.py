"""Which earlier answers a request reads, found in its text: an edge is an answer that stands verbatim in a later request.

Answers and requests are cut into sentences and lines, which are compared by their hashes. So a sentence at the seam to what
stands around an answer is missed, and so is an answer that was rewritten, escaped or mostly cut away.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_LEAST_CHARACTERS = 24
"""The least characters of a sentence or line: shorter ones are in many texts."""
_LEAST_READ, _LEAST_SHARE = 64, 0.5
"""Characters of an answer, and share of it, that a request must hold to have read it."""
_MOST_HOLDERS = 8
"""Answers that one sentence is known of, the latest: what stands in more tells nothing."""


class Answers:
    """The latest answers of one client, at most so many."""

    def __init__(self, most: int = 2_000) -> None:
        self._most = most
        self._pieces: OrderedDict[str, Mapping[int, int]] = OrderedDict()
        """The characters of each answer's pieces, by their hashes."""
        self._holders: dict[int, list[str]] = {}

    def add(self, id: str, answer: str) -> None:
        """Remember an answer."""
        if not (pieces := _pieces([answer])):
            return
        self._pieces[id] = pieces
        for piece in pieces:
            holders = self._holders.setdefault(piece, [])
            holders.append(id)
            del holders[:-_MOST_HOLDERS]
        if len(self._pieces) > self._most:
            self._forget(*self._pieces.popitem(last=False))

    def read_by(self, texts: Iterable[str]) -> list[str]:
        """The answers that stand in these texts. Where two have sentences in common, each sentence counts for one."""
        left = _pieces(texts)
        known = {piece: self._holders[piece] for piece in left if piece in self._holders}
        candidates = dict.fromkeys(id for holders in known.values() for id in holders)
        read = []
        while candidates:
            # Of those with as much in it the one that has least beside: a revision repeats much of what it revised.
            held, share, best = max(self._held(id, left) for id in candidates)
            if held < _LEAST_READ:
                break
            if share >= _LEAST_SHARE:
                read.append(best)
                for piece in self._pieces[best]:
                    left.pop(piece, None)
            del candidates[best]
        return read

    def _held(self, id: str, left: Mapping[int, int]) -> tuple[int, float, str]:
        """Characters of an answer that are in a text, which share of it that is, and its id."""
        pieces = self._pieces[id]
        held = sum(length for piece, length in pieces.items() if piece in left)
        return held, held / sum(pieces.values()), id

    def _forget(self, id: str, pieces: Mapping[int, int]) -> None:
        for piece in pieces:
            holders = self._holders.get(piece)
            if holders is not None and id in holders:
                holders.remove(id)
                if not holders:
                    del self._holders[piece]


def _pieces(texts: Iterable[str]) -> dict[int, int]:
    """Characters of each sentence and line that is long enough, by its hash."""
    found = {}
    for text in texts:
        for piece in text.replace(". ", ".\n").split("\n"):
            piece = piece.strip()
            if len(piece) >= _LEAST_CHARACTERS:
                found[hash(piece)] = len(piece)
    return found


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was answered."""

    id: str
    client: tuple[str, ...]
    """Tenant, key and end user: nothing is compared beyond them."""
    at_s: float
    texts: Sequence[str]
    """The texts of its messages."""
    answer: str


@dataclass(frozen=True, slots=True)
class Application:
    """Calls that read each other's answers, one time after the other alike: they begin with the same text."""

    client: tuple[str, ...]
    opening: str
    """The first message of its first call."""
    times: int
    calls: int
    depth: int
    """Calls of the longest chain, at most."""
    edges: int
    repeated: int
    """Calls that begin with the first message of an earlier one."""
    last: Call


def edges(calls: Iterable[Call]) -> dict[str, list[str]]:
    """By call, in the order of time, those whose answers it reads; nothing of those that read none."""
    known: dict[tuple[str, ...], Answers] = {}
    found = {}
    for call in calls:
        answers = known.setdefault(call.client, Answers())
        if read := answers.read_by(call.texts):
            found[call.id] = read
        answers.add(call.id, call.answer)
    return found


def applications(calls: Sequence[Call]) -> list[Application]:
    """Find applications in calls, which come in the order of time; the one that was seen last stands first."""
    read = edges(calls)
    home = {call.id: call.id for call in calls}

    def first_of(id: str) -> str:
        while home[id] != id:
            home[id] = id = home[home[id]]
        return id

    for id, sources in read.items():
        for source in sources:
            home[first_of(id)] = first_of(source)
    groups: dict[str, list[Call]] = {}
    for call in calls:
        groups.setdefault(first_of(call.id), []).append(call)
    alike: dict[tuple[tuple[str, ...], str], list[list[Call]]] = {}
    for group in groups.values():
        if len(group) > 1:
            alike.setdefault((group[0].client, _opening(group[0])), []).append(group)
    made = [_application(client, opening, times, read) for (client, opening), times in alike.items()]
    return sorted(made, key=lambda one: one.last.at_s, reverse=True)


def _application(
    client: tuple[str, ...], opening: str, times: Sequence[Sequence[Call]], read: Mapping[str, Sequence[str]]
) -> Application:
    calls = [call for group in times for call in group]
    depth: dict[str, int] = {}
    for call in sorted(calls, key=lambda one: one.at_s):
        depth[call.id] = 1 + max((depth.get(source, 0) for source in read.get(call.id, ())), default=0)
    openings = {_opening(call) for call in calls}
    return Application(
        client,
        opening,
        len(times),
        len(calls),
        max(depth.values()),
        sum(len(read.get(call.id, ())) for call in calls),
        len(calls) - len(openings),
        max(calls, key=lambda one: one.at_s),
    )


def _opening(call: Call) -> str:
    return call.texts[0] if call.texts else ""
