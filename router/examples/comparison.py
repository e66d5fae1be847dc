"""Compares a request's words with those of each candidate, as numbers.

Names, numbers and identifiers show which thing is asked about, the other words what is asked about it, so they are compared
apart as well as together. Comparisons are exact, except the last few numbers, which compare the spelling of unlisted words.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from router.examples import unlisted_words
from router.examples.lexical_words import CALENDAR
from router.examples.reading import ANSWER, MAY_BE_NAMED, QUESTION, Pair, Text
from router.examples.slips import KINDS, kind_of_slip, near_forms
from router.examples.spelled_codes import spelled_by

NAMES: tuple[str, ...] = (
    "request_covered",  # share of the request's words, weighted by rarity, that the example's question says
    "example_covered",  # and of the example's question that the request says
    "request_rare_covered",  # the same by excess rarity: names, numbers, identifiers; 1 where there are none
    "example_rare_covered",
    "turn_covered",  # the same of where something is asked only (Text.turn), of both
    "turn_covers",  # and of where the example asks something, by the request
    "asking_covered",  # share of the request's words but names, by rarity, that the example's question says; 1 without any
    "asking_covers",  # what these weigh against the example's own words but names, at most 1
    "overlap_lost",  # request_rare_covered x example_rare_covered, below the candidate that has most of it
    "rare_shared",  # excess rarity both say, x / (1 + x)
    "rare_of_request_only",
    "rare_of_example_only",
    "rarest_of_request_only",  # the excess of the rarest word that only one says
    "rarest_of_example_only",
    "numbers_equal",  # both say numbers, and the same
    "numbers_conflict",  # both say numbers, and others
    "numbers_one_sided",
    "other_things",  # router.examples.lexical_things.about_other_things
    "names_disagree",  # each names what the other does not
    "asks_alike",  # the same kinds of question word
    "request_in_answer",  # share of the request's words, weighted by excess rarity, that the answer says
    "answer_spelled",  # how far a code in the answer is spelled from the example's question: it shows a rule
    "spelled_alike",  # the same, times request_covered: a rule that the request may be asking for
    "spelled_again",  # how far it is spelled from the request as well: only then can it be what the request asks for
    "form_asked",  # best asking_covered of the candidates whose answers spell a code of its form; 0 without one
    "form_rivals",  # and of those that spell one of another form only
    "slips",  # words of either question that were read as others for being a slip of the finger, x / (1 + x)
    "slips_met",  # share of them whose word the other question says; 1 where there are none
    "telling_covered",  # share of the request's names and identifiers that the example's question says; 1 without any
    "telling_covers",  # and of the example's question, by the request
    "telling_lost",  # telling_covered, below the candidate that has most of it
    "joins_more",  # the request joins several things ("and", "both", "also") and the example's question does not
    # Whether a name of one differs in one letter from a word that only the other says. The request's ...
    *(f"name_{kind}" for kind in KINDS),  # ... lacks it, has one more, has another vowel, another letter
    *unlisted_words.NAMES,
)
"""One name per number, in order (router.examples.features.NAMES has them among others)."""

_PACK_TEXTS = struct.Struct(f"{len(NAMES) - len(KINDS) - len(unlisted_words.NAMES)}f").pack
_PACK_KINDS = struct.Struct(f"{len(KINDS)}f").pack
_NO_KINDS = _PACK_KINDS(*[0.0] * len(KINDS))
_PACK_UNLISTED = struct.Struct(f"{len(unlisted_words.NAMES)}f").pack


def in_common(asked: Text, pairs: Sequence[Pair], resembled: frozenset[str] = frozenset()) -> list[bytes]:
    """The numbers of each pair, packed; "overlap_lost" as the overlap itself, and 0 for the two about forms.

    `resembled`: listed words that differ by a typing slip from names of the candidates, and so may be names themselves.

    One long function, since values are looked up once here instead of once per candidate.
    """
    weights, words, turn = asked.weights, asked.words, dict(asked.turn)
    weight_of_all, rare_weight, turn_weight = asked.weight, asked.rare_weight, asked.turn_weight
    asking, asking_weight, one_turn = asked.asking, asked.asking_weight, asked.turn is asked.rare
    telling = asked.telling
    # What one of the texts writes as a name is one in all of them, also where nobody wrote a capital.
    named = asked.names.union(resembled, *[pair.names for pair in pairs]) - CALENDAR
    if named:
        mine = _named(asking if telling or one_turn else weights, named, telling)
        if mine:
            telling = (*telling, *mine)
            asking = {word: weight for word, weight in asking.items() if word not in named}
            asking_weight = sum(asking.values())
    numbers, machine, names, asks = asked.numbers, asked.machine, asked.names, asked.asks
    rare = [(word, excess, weights[word], asking.get(word, 0.0)) for word, excess in asked.rare.items()]
    common = [
        (word, weight, asking.get(word, 0.0)) for word, weight in weights.items() if word not in asked.rare
    ]
    unlisted, compared = asked.unlisted, unlisted_words.compared
    my_meant, joins = asked.meant, asked.joins
    # Of a follow-up that names something, what was named before is not what it is about.
    about = words if one_turn or not telling else frozenset(telling)
    tellings = [_telling(pair, named) for pair in pairs] if named else [pair.telling for pair in pairs]
    near = near_forms(telling)
    by_telling = _telling_covered(telling, zip(pairs, tellings, strict=True))
    most_telling = max(by_telling)
    packed = []
    for pair, their_telling, telling_covered in zip(pairs, tellings, by_telling, strict=True):
        said, their_numbers = pair.said, pair.numbers
        shared = rare_shared = asking_shared = answered = rarest_mine = rarest_theirs = 0.0
        for word, excess, weight, of_asking in rare:
            by = said.get(word, 0)
            if by & QUESTION:
                shared += weight
                rare_shared += excess
                asking_shared += of_asking
            elif not rarest_mine:
                rarest_mine = excess
            if by & ANSWER:
                answered += excess
        # Of an answer only rare words are kept: these can only be the question's.
        for word, weight, of_asking in common:
            if word in said:
                shared += weight
                asking_shared += of_asking
        if pair.turn is not None:
            # A follow-up: what was asked in an earlier turn is not what it asks.
            asking_shared = sum([weight for word, weight in asking.items() if word in pair.asking])
        for word, excess in pair.rare:
            if word not in words:
                rarest_theirs = excess
                break
        turn_shared = turn_met = rare_shared
        if not one_turn or pair.turn is not None:
            # What the request's last turn says; an example's turn, though, may be met by any turn of the request.
            their_turn = pair.rare if pair.turn is None else pair.turn
            turn_shared = sum([excess for word, excess in their_turn if word in turn])
            turn_met = sum([excess for word, excess in their_turn if word in words])
        weight, other_rare_weight, other_turn_weight = pair.weight, pair.rare_weight, pair.turn_weight
        covered_asking = asking_shared / asking_weight if asking_weight else 1.0
        their_asking = pair.asking_weight
        if len(their_telling) > len(pair.telling):
            their_asking -= sum([pair.asking.get(word, 0.0) for word in their_telling])
        mine_only, theirs_only = rare_weight - rare_shared, other_rare_weight - rare_shared
        covered_words = shared / weight_of_all if weight_of_all else 0.0
        covered = rare_shared / rare_weight if rare_weight else 1.0
        covers = rare_shared / other_rare_weight if other_rare_weight else 1.0
        same_numbers = numbers == their_numbers
        # A name is never a function word, and so one of the words if it is said at all.
        stranger, strange = False, not pair.names <= words
        for name in names:
            if name not in said or said[name] == ANSWER:
                stranger = True
                break
        slips, slips_met = len(my_meant) + len(pair.meant), 1.0
        if slips:
            met = sum([bool(said.get(word, 0) & QUESTION) for word in my_meant])
            slips_met = (met + sum([word in words for word in pair.meant])) / slips
        packed.append(
            _PACK_TEXTS(
                covered_words,
                shared / weight if weight else 0.0,
                covered,
                covers,
                turn_shared / turn_weight if turn_weight else 1.0,
                turn_met / other_turn_weight if other_turn_weight else 1.0,
                covered_asking,
                min(1.0, asking_shared / their_asking) if their_asking > 1e-9 else 1.0,
                covered * covers,
                rare_shared / (1.0 + rare_shared),
                # Sums of the same numbers in another order: a hair below nothing is nothing.
                mine_only / (1.0 + mine_only) if mine_only > 0.0 else 0.0,
                theirs_only / (1.0 + theirs_only) if theirs_only > 0.0 else 0.0,
                rarest_mine,
                rarest_theirs,
                same_numbers and numbers != (),
                not same_numbers and numbers != () and their_numbers != (),
                not same_numbers and (numbers == () or their_numbers == ()),
                not same_numbers or machine != pair.machine or stranger or strange,
                stranger and strange,
                asks == pair.asks,
                answered / rare_weight if rare_weight else 0.0,
                pair.spelled,
                pair.spelled * covered_words,
                spelled_by(asked.words, pair.codes) if pair.codes else 0.0,
                # For these two all candidates must have been looked at (router.examples.features).
                0.0,
                0.0,
                slips / (1.0 + slips),
                slips_met,
                telling_covered,
                sum([word in about for word in their_telling]) / len(their_telling) if their_telling else 1.0,
                most_telling - telling_covered,
                joins and not pair.joins,
            )
            # Asked of few: most names have no letter more or less in common than chance would have it.
            + (
                _NO_KINDS
                if telling_covered == 1.0 or near.isdisjoint(pair.near)
                else _kinds(telling, their_telling, pair, words)
            )
            + _PACK_UNLISTED(*compared(unlisted, pair.unlisted))
        )
    return packed


def _kinds(telling: Sequence[str], their_telling: Sequence[str], pair: Pair, words: frozenset[str]) -> bytes:
    """Packed: which of KINDS there are among names that only one of the two says, or words that may be parts of names."""
    said = pair.said
    theirs = [word for word in their_telling if word not in words]
    for word, excess in pair.rare:
        if excess < 1.0:
            if excess < MAY_BE_NAMED:
                break
            if word not in words:
                theirs.append(word)
    mine = [word for word in telling if not said.get(word, 0) & QUESTION]
    found = {kind_of_slip(one, other) for one in mine for other in theirs}
    return _PACK_KINDS(*[kind in found for kind in range(len(KINDS))])


def _telling_covered(telling: Sequence[str], by_pair: Iterable[tuple[Pair, Sequence[str]]]) -> list[float]:
    """Share of the telling words covered by each pair, given with the pair's own telling words."""
    count = len(telling)
    return [
        1.0
        if not count
        else sum([pair.said.get(word, 0) & QUESTION for word in telling]) / count
        if pair.turn is None or not theirs
        # A follow-up is not about what was named before, where its last turn names something.
        else sum([word in theirs for word in telling]) / count
        for pair, theirs in by_pair
    ]


def _telling(pair: Pair, named: frozenset[str]) -> Sequence[str]:
    """The telling words of an example's question, including what any of the texts writes as a name."""
    if pair.telling or pair.turn is None:
        if named.isdisjoint(pair.asking):
            return pair.telling
        return (*pair.telling, *_named(pair.asking, named, pair.telling))
    return [word for word, by in pair.said.items() if by & QUESTION and word in named]


def _named(words: Iterable[str], named: frozenset[str], telling: Sequence[str]) -> list[str]:
    return [word for word in words if word in named and word not in telling]
