import random

from simulation.phrasing import Habits, core, dress, follow_up, slip
from simulation.world import World

WORLD = World(facts=300)
TIDY = Habits(
    own_form=0, opener=0, closer=0, story=0, distraction=0, lower_case=0, unpunctuated=0, careless=0, typo=0
)


def test_one_fact_is_asked_for_in_many_ways():
    rng = random.Random(1)
    habits = Habits()
    fact = WORLD.facts[0]
    wordings = {dress(rng, core(rng, [fact], habits), habits) for _ in range(500)}
    assert len(wordings) > 150


def test_common_wordings_are_much_more_common_than_rare_ones():
    rng = random.Random(1)
    wordings = [core(rng, [WORLD.facts[0]], TIDY) for _ in range(1000)]
    counts = sorted((wordings.count(w) for w in set(wordings)), reverse=True)
    assert counts[0] > 8 * counts[-1]


def test_the_name_is_always_there_except_in_a_follow_up():
    rng = random.Random(1)
    for fact in WORLD.facts:
        assert fact.entity in core(rng, [fact], Habits())
        assert fact.entity not in follow_up(rng, fact, same_name=True)


def test_a_slip_changes_one_word_and_keeps_its_first_letter():
    rng = random.Random(1)
    text = "What is the currency of Verdania?"
    for _ in range(100):
        before, after = text.split(), slip(rng, text).split()
        changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
        assert len(changed) <= 1
        assert all(a[0] == b[0] for a, b in changed)


def test_a_text_of_short_words_has_nothing_to_slip_on():
    assert slip(random.Random(1), "is it so") == "is it so"
