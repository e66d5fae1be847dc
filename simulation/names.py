"""Invents names for the simulated world: nothing here exists, and no two names are the same.

A share of the names of every kind are *siblings*: one edit, one digit or one word away from an existing name, as in product
lines, namesakes and twin towns. Knows nothing of facts or questions.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable


def _words(text: str) -> list[str]:
    return text.split()


_ONSETS = _words("b br c ch d dr f fl g gr h j k kl l m n p pr qu r s sh st t th tr v w z")
_VOWELS = _words("a e i o u ai ea ie oa ou")
_CODAS = _words("l ld m n nd r rn rt s st th x k")
_FIRST = _words(
    "Ilsa Tomas Marit Oren Priya Jonas Adaeze Kofi Lena Yusuf Ingrid Mateo Noor Silvan Hana Bram Celeste Dario "
    "Esme Farid Greta Hugo Irena Jarek Keiko Leopold Mina Nils Odile Pavel Rhea Sanna Teodor Ulla Viggo Wren"
)
_NOUNS = _words(
    "Orchard Lantern Harbour Ledger Meadow Compass Winter Mirror Ferry Garden Archive Kiln Signal Orbit Thicket "
    "Quarry Beacon Cellar Viaduct Willow"
)
_ADJECTIVES = _words(
    "Glass Quiet Amber Hollow Crooked Silver Distant Burnt Narrow Velvet Painted Broken Northern Second Salt "
    "Paper Iron Pale"
)
_COATS = _words("spotted striped banded crested dusky golden marsh pale ringed dwarf")
_ANIMALS = _words("finch newt vole moth heron gecko shrew perch skink plover")

Shape = Callable[[random.Random], str]


def stem(rng: random.Random, syllables: int = 2) -> str:
    """A pronounceable invented word in lower case."""
    word = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(syllables))
    return word + rng.choice(_CODAS)


def town(rng: random.Random) -> str:
    """An invented town, used for values: home ports, capitals, birthplaces."""
    return stem(rng, rng.choice((1, 2))).capitalize() + rng.choice(
        ("", "", "ton", "by", "mouth", "field", "wick", " Bay", " Cross")
    )


def person(rng: random.Random) -> str:
    """An invented person, first and last name."""
    return f"{rng.choice(_FIRST)} {stem(rng, rng.choice((1, 2))).capitalize()}"


def _place(rng: random.Random) -> str:
    prefix = rng.choice(("", "", "", "New ", "Upper ", "East ", "San "))
    return prefix + stem(rng).capitalize() + rng.choice(("ia", "land", "ova", "istan", "or", "é", ""))


def _company(rng: random.Random) -> str:
    a, b = stem(rng, rng.choice((1, 2))).capitalize(), stem(rng, 1).capitalize()
    return rng.choice(
        (f"{a} & {b}", f"{a} Systems", f"{a} Freight", f"{a} Foods", f"{a}{b.lower()}", f"{a} Labs")
    )


def _device(rng: random.Random) -> str:
    letters = "".join(rng.choice("ABDHKLMQRTVXZ") for _ in range(2))
    word = stem(rng, 1).capitalize()
    return rng.choice(
        (
            f"{letters}-{rng.randrange(11, 99) * 10}",
            f"{word} {rng.randrange(2, 9)} Pro",
            f"{word} {letters[0]}{rng.randrange(10, 99)}",
        )
    )


def _medicine(rng: random.Random) -> str:
    return stem(rng) + rng.choice(("ine", "ol", "amide", "azole", "ium", "etin"))


def _library(rng: random.Random) -> str:
    word = stem(rng, 1)
    return rng.choice(
        (
            f"{word}lib {rng.randrange(1, 6)}.{rng.randrange(0, 9)}",
            f"py{word}",
            f"{word}db",
            f"{word}-{stem(rng, 1)}",
        )
    )


def _dish(rng: random.Random) -> str:
    return f"{stem(rng).capitalize()} {rng.choice(('stew', 'pie', 'dumplings', 'flatbread', 'broth', 'pudding'))}"


def _ship(rng: random.Random) -> str:
    return (
        rng.choice(("MV ", "SS ", "RV ", ""))
        + stem(rng, 2).capitalize()
        + rng.choice(("", " Star", " II", " Dawn"))
    )


def _statute(rng: random.Random) -> str:
    number = rng.randrange(11, 399)
    return rng.choice(
        (
            f"Directive {number}-{rng.choice('ABCD')}",
            f"Rule TR-{number}",
            f"Policy {number}.{rng.randrange(1, 9)}",
        )
    )


def _club(rng: random.Random) -> str:
    suffix = rng.choice(("Rovers", "Athletic", "United", "Wanderers", "Harriers"))
    return f"{stem(rng, rng.choice((1, 2))).capitalize()} {suffix}"


def _route(rng: random.Random) -> str:
    return rng.choice(
        (
            f"Route {rng.randrange(10, 400)}",
            f"{stem(rng).capitalize()} Express",
            f"Line {rng.choice('ABCDEFGHJ')}{rng.randrange(2, 30)}",
        )
    )


def _species(rng: random.Random) -> str:
    return f"{rng.choice(_COATS)} {stem(rng)} {rng.choice(_ANIMALS)}"


def _festival(rng: random.Random) -> str:
    middle = rng.choice(("Lantern", "Harvest", "River", "Kite", "Bread"))
    return f"{stem(rng).capitalize()} {middle} {rng.choice(('Festival', 'Fair', 'Days'))}"


def _title(rng: random.Random) -> str:
    article = rng.choice(("The", "A", "My", "Our"))
    return f"{article} {rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS)}{rng.choice(('', '', 's'))}"


SHAPES: dict[str, Shape] = {
    "place": _place,
    "person": person,
    "company": _company,
    "device": _device,
    "medicine": _medicine,
    "library": _library,
    "dish": _dish,
    "ship": _ship,
    "statute": _statute,
    "club": _club,
    "route": _route,
    "species": _species,
    "festival": _festival,
    "employee": person,
    "title": _title,
}
"""How names of each kind are built."""


def sibling(rng: random.Random, name: str) -> str:
    """A nearly identical name: one digit, vowel, first name or trailing mark differs."""
    digits = [i for i, c in enumerate(name) if c.isdigit()]
    if digits:
        at = rng.choice(digits)
        changed = name[:at] + rng.choice([d for d in "123456789" if d != name[at]]) + name[at + 1 :]
        return rng.choice((changed, changed, name + rng.choice("SX")))
    words = name.split()
    if len(words) > 1 and rng.random() < 0.3:
        for choices in (_FIRST, _COATS):
            if words[0] in choices:
                return " ".join([rng.choice([c for c in choices if c != words[0]]), *words[1:]])
    vowels = [i for i, c in enumerate(name) if c in "aeiou" and i > 0]
    if vowels and rng.random() < 0.7:
        at = rng.choice(vowels)
        return name[:at] + rng.choice([v for v in "aeiou" if v != name[at]]) + name[at + 1 :]
    longest = max(words, key=len)
    at = rng.randrange(1, len(longest))
    return name.replace(longest, longest[:at] + rng.choice("lnrst") + longest[at:], 1)


def names(
    rng: random.Random, kind: str, count: int, *, sibling_share: float, taken: set[str]
) -> list[tuple[str, int]]:
    """`count` names of a kind, each with its family; siblings share a family. Adds the folded names to `taken`."""
    made: list[tuple[str, int]] = []
    family = 0
    while len(made) < count:
        if made and rng.random() < sibling_share:
            source, of_family = rng.choice(made)
            candidate = sibling(rng, source)
        else:
            candidate, of_family = SHAPES[kind](rng), family
        key = folded(candidate)
        if key in taken or not key:
            continue
        taken.add(key)
        made.append((candidate, of_family))
        family += of_family == family
    return made


_TOKEN = re.compile(r"\w+(?:[.\-]\w+)*")


def tokens(text: str) -> list[str]:
    """Lower-cased words of a text; `QX-410` and `2.3` are one word, a possessive 's and punctuation are dropped."""
    return _TOKEN.findall(text.casefold().replace("’", "'").replace("'s", " "))


def folded(name: str) -> str:
    """The form in which two spellings of a name are equal."""
    return " ".join(tokens(name))
