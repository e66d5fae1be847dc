import pytest

from simulation.minds import Aptitude, knows, reply
from simulation.world import World, seeded

WORLD = World()
SAMPLE = seeded("sample").sample([f for f in WORLD.facts if not f.is_rule], 500)
UNKNOWN = [f for f in SAMPLE if not knows(WORLD, 7, f)]
KNOWN = [f for f in SAMPLE if knows(WORLD, 7, f)]


def question(fact):
    return f"What is the {fact.relation.nouns[0]} of {fact.entity}?"


def turn(role, text):
    return {"role": role, "content": text}


def example(fact, value=None):
    return [turn("user", question(fact)), turn("assistant", f"{value or fact.value}.")]


def other_name(fact):
    return next(f for f in WORLD.facts if f.relation is fact.relation and f.value != fact.value)


def quality(facts, role="understudy", context=lambda fact: []):
    messages = [[*context(f), turn("user", question(f))] for f in facts]
    grades = [
        WORLD.grade(question(f), reply(WORLD, role, 7, m)) for f, m in zip(facts, messages, strict=True)
    ]
    return sum(grades) / len(grades)


def test_the_lead_knows_every_fact():
    assert quality(SAMPLE, "lead") == 1.0


def test_the_understudy_knows_a_quarter():
    share = sum(knows(WORLD, 7, f) for f in WORLD.facts) / len(WORLD.facts)
    assert share == pytest.approx(0.25, abs=0.03)
    assert quality(KNOWN) > 0.9
    assert quality(UNKNOWN) < 0.1


def test_an_example_that_holds_the_fact_makes_it_right():
    assert quality(UNKNOWN, context=example) > 0.93


def test_a_wrong_example_is_believed():
    assert quality(KNOWN, context=lambda f: example(f, other_name(f).value)) < 0.1


def test_a_look_alike_example_misleads():
    answers = [
        reply(WORLD, "understudy", 7, [*example(other_name(f)), turn("user", question(f))]) for f in UNKNOWN
    ]
    copied = [
        other_name(f).value.casefold() in WORLD.stated(f, a) for f, a in zip(UNKNOWN, answers, strict=True)
    ]
    assert sum(copied) / len(copied) > 0.4
    assert quality(KNOWN, context=lambda f: 3 * example(other_name(f))) < quality(KNOWN) - 0.2


def test_irrelevant_examples_make_it_worse_at_what_it_knows():
    elsewhere = [f for f in WORLD.facts if f.kind == "dish"][:5]
    about_dishes = [m for f in elsewhere for m in example(f)]
    others = [f for f in KNOWN if f.kind != "dish"]
    assert quality(others, context=lambda f: about_dishes) < quality(others) - 0.08


def test_a_convention_is_learnt_from_examples_about_other_names_more_from_more():
    rules = [f for f in WORLD.facts if f.relation.key == "username" and not knows(WORLD, 7, f)]
    taught = [m for f in rules[:4] for m in example(f)]
    none, one, four = (quality(rules[4:], context=lambda f, n=n: taught[: 2 * n]) for n in (0, 1, 4))
    assert none < 0.15
    assert 0.35 < one < 0.75
    assert four > one + 0.1


def test_one_offs_are_beyond_any_example_but_not_always_beyond_the_understudy():
    sums = [f"What is {a} times {a + 7}?" for a in range(12, 98)]
    lead = [WORLD.grade(q, reply(WORLD, "lead", 7, [turn("user", q)])) for q in sums]
    small = [WORLD.grade(q, reply(WORLD, "understudy", 7, [turn("user", q)])) for q in sums]
    assert sum(lead) == len(sums)
    assert sum(small) / len(sums) == pytest.approx(Aptitude().one_off, abs=0.15)


def test_a_question_from_outside_the_world_is_told_so():
    text = reply(WORLD, "lead", 7, [turn("user", "Who won the world cup?")])
    assert "simulated engine" in text
    suggested = text.split("“")[1].split("”")[0]
    assert WORLD.read(suggested).facts != ()
