"""Finds which fact of the simulated world a text asks for; nothing else in the simulation learns what was asked.

Reads as a careful person would: the last name mentioned is the one meant, a typing slip is corrected when only one word can
have been meant, and what a follow-up leaves out is taken from the turns before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from engines.chat import message_text
from simulation import oneoffs as simulated_oneoffs
from simulation.names import tokens
from simulation.oneoffs import OneOff
from simulation.phrasing import plain_words
from simulation.topics import TOPICS, Fact, Relation

_RECOUNTED = re.compile(r"\n\(earlier: (.*)\)\s*$", re.IGNORECASE | re.DOTALL)
"""A last line in brackets that repeats what was said before, as people and programs write when they quote a follow-up."""

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a conversation's last user turn asks for: facts, a one-off request, or nothing known to this world."""

    facts: tuple[Fact, ...] = ()
    one_off: OneOff | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """An earlier user turn with its answer: an example or history, which the messages do not distinguish."""

    facts: tuple[Fact, ...]
    answer: str
    one_off: OneOff | None = None


@dataclass(frozen=True, slots=True)
class _Sight:
    """One text read without context. `rest` is its words without the names."""

    entity: str | None
    rest: tuple[str, ...]


class Reader:
    """Reads questions about a set of facts. Pure: the same text always reads the same."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._by_entity: dict[str, dict[str, Fact]] = {}
        for fact in facts:
            self._by_entity.setdefault(fact.entity, {})[fact.relation.key] = fact
        self._relations = {t.kind: t.relations for t in TOPICS}
        self._kinds = {e: next(iter(fs.values())).kind for e, fs in self._by_entity.items()}
        self._names: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for entity in self._by_entity:
            words = tuple(tokens(entity))
            self._names.setdefault(words[0], []).append((words, entity))
        for options in self._names.values():
            options.sort(key=lambda o: -len(o[0]))
        self._phrases = {r.key + t.kind: _phrases(r) for t in TOPICS for r in t.relations}
        self._targets = {w for names in self._names.values() for words, _ in names for w in words}
        self._targets |= {w for ps in self._phrases.values() for phrase, _ in ps for w in phrase}
        self._known = self._targets | plain_words() | _template_words()
        self._near: dict[str, set[str]] = {}
        for word in self._targets:
            if len(word) >= 4:
                for shape in _shapes(word):
                    self._near.setdefault(shape, set()).add(word)
        self.sight = lru_cache(maxsize=20_000)(self._sight)

    def read(self, messages: Messages) -> Reading:
        """What the last user turn asks for, given the turns before it."""
        turns = [(str(m.get("role")), message_text(m.get("content"))) for m in messages]
        last = next((i for i in reversed(range(len(turns))) if turns[i][0] == "user"), None)
        if last is None:
            return Reading()
        text = turns[last][1]
        if one_off := simulated_oneoffs.read(text):
            return Reading(one_off=one_off)
        before = [t for role, t in turns[:last] if role in ("user", "assistant")]
        return Reading(self._facts(text, before[::-1]))

    def pairs(self, messages: Messages) -> list[Pair]:
        """Every answered user turn before the last one, oldest first, with the facts it is about."""
        found: list[Pair] = []
        before: list[str] = []
        asked: str | None = None
        for message in messages:
            text = message_text(message.get("content"))
            if message.get("role") == "user":
                asked = text
            elif message.get("role") == "assistant" and asked is not None:
                if one_off := simulated_oneoffs.read(asked):
                    found.append(Pair((), text, one_off))
                else:
                    found.append(Pair(self._facts(asked, [text, *before[::-1]]), text))
                before += [asked, text]
                asked = None
        return found

    def _facts(self, text: str, before: Sequence[str]) -> tuple[Fact, ...]:
        """Facts meant by `text`; `before` holds the earlier texts to fall back on, nearest first."""
        if recounted := _RECOUNTED.search(text):
            text, before = text[: recounted.start()], [recounted[1], *before]
        sight = self.sight(text)
        entity = sight.entity
        if entity is not None:
            relations = self._cued(self._kinds[entity], sight.rest)
            if not relations:
                relations = self._first_relations(self._kinds[entity], before)
        else:
            entity = next((e for t in before if (e := self.sight(t).entity) is not None), None)
            if entity is None:
                return ()
            relations = self._cued(self._kinds[entity], sight.rest)
        return tuple(f for r in relations if (f := self._by_entity[entity].get(r.key)) is not None)

    def _first_relations(self, kind: str, before: Sequence[str]) -> list[Relation]:
        for text in before:
            sight = self.sight(text)
            if sight.entity is not None and self._kinds[sight.entity] != kind:
                return []
            if relations := self._cued(kind, sight.rest):
                return relations[:1]
        return []

    def _cued(self, kind: str, rest: tuple[str, ...]) -> list[Relation]:
        """Relations whose nouns or cues appear, longest first where they overlap, in the order of the text."""
        hits = []
        for relation in self._relations[kind]:
            for phrase, together in self._phrases[relation.key + kind]:
                if places := _places(phrase, rest, together=together):
                    hits.append((len(phrase), places, relation))
        hits.sort(key=lambda h: -h[0])
        used: set[int] = set()
        chosen: list[tuple[int, Relation]] = []
        for _, places, relation in hits:
            if used.isdisjoint(places):
                used.update(places)
                if all(relation is not r for _, r in chosen):
                    chosen.append((places[0], relation))
        return [r for _, r in sorted(chosen, key=lambda c: c[0])]

    def _sight(self, text: str) -> _Sight:
        words = [self._meant(w) for w in tokens(text)]
        rest: list[str] = []
        entity: str | None = None
        i = 0
        while i < len(words):
            for name, candidate in self._names.get(words[i], ()):
                if tuple(words[i : i + len(name)]) == name:
                    entity = candidate
                    i += len(name)
                    break
            else:
                rest.append(words[i])
                i += 1
        return _Sight(entity, tuple(rest))

    def _meant(self, word: str) -> str:
        """The word itself, or the one known word that differs from it by a single slip."""
        if word in self._known or len(word) < 3:
            return word
        near = {t for shape in _shapes(word) for t in self._near.get(shape, ())}
        return near.pop() if len(near) == 1 else word


def _phrases(relation: Relation) -> list[tuple[tuple[str, ...], bool]]:
    """Word sequences that identify a relation; True where the words must be adjacent."""
    nouns = [(tuple(tokens(n)), True) for n in relation.nouns]
    return nouns + [(tuple(tokens(c)), False) for c in relation.cues]


def _places(phrase: tuple[str, ...], words: tuple[str, ...], *, together: bool) -> tuple[int, ...]:
    """The positions of a phrase's words, in order; empty if they do not all appear."""
    if together:
        for i in range(len(words) - len(phrase) + 1):
            if words[i : i + len(phrase)] == phrase:
                return tuple(range(i, i + len(phrase)))
        return ()
    found: list[int] = []
    for i, word in enumerate(words):
        if len(found) < len(phrase) and word == phrase[len(found)]:
            found.append(i)
    return tuple(found) if len(found) == len(phrase) else ()


def _shapes(word: str) -> set[str]:
    """The word and the word with any one letter left out: two words that differ by a slip share one of these."""
    return {word} | {word[:i] + word[i + 1 :] for i in range(len(word))}


def _template_words() -> set[str]:
    forms = [f for t in TOPICS for r in t.relations for f in r.forms]
    return {w for text in (*forms, *simulated_oneoffs.templates()) for w in tokens(text)}
