import random

from simulation.names import SHAPES, folded, names, tokens


def edit_distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row, previous = [i, *row[1:]], row
        for j, y in enumerate(b, 1):
            row[j] = min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (x != y))
    return row[-1]


def test_no_two_names_are_the_same_whatever_their_kind():
    taken: set[str] = set()
    made = [
        n for kind in SHAPES for n, _ in names(random.Random(1), kind, 60, sibling_share=0.3, taken=taken)
    ]
    assert len({folded(n) for n in made}) == len(made) == 60 * len(SHAPES)


def test_a_family_holds_names_that_are_nearly_the_same():
    made = names(random.Random(1), "device", 100, sibling_share=0.4, taken=set())
    families: dict[int, list[str]] = {}
    for name, family in made:
        families.setdefault(family, []).append(name)
    related = [f for f in families.values() if len(f) > 1]
    assert len(related) > 10
    for family in related:
        for name in family[1:]:
            assert min(edit_distance(name, other) for other in family if other != name) <= 2


def test_a_word_with_digits_and_marks_is_one_word():
    assert tokens("The QX-410's battery, tarnlib 2.3. Okay?") == [
        "the",
        "qx-410",
        "battery",
        "tarnlib",
        "2.3",
        "okay",
    ]
