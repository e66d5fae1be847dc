import subprocess
import sys

from simulation.world import World, seeded

WORLD = World()


def fact_of(kind, key):
    return next(f for f in WORLD.facts if f.kind == kind and f.relation.key == key)


CAPITAL = fact_of("place", "capital")
QUESTION = f"What is the capital of {CAPITAL.entity}?"


def test_the_same_seed_makes_the_same_world_in_another_process():
    code = "from simulation.world import World; print(hash(tuple((f.entity, f.value) for f in World(9, 400).facts)))"
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    }
    assert len(said) == 1
    assert [f.value for f in World(9, 400).facts] != [f.value for f in World(10, 400).facts]


def test_the_right_value_is_right_however_it_is_put():
    for answer in (
        CAPITAL.value,
        f"{CAPITAL.value.upper()}!",
        f"The capital of {CAPITAL.entity} is {CAPITAL.value}. Anything else?",
    ):
        assert WORLD.grade(QUESTION, answer) == 1.0


def test_a_value_that_looks_right_is_wrong():
    wrong = WORLD.plausible_error(CAPITAL, seeded("test"))
    assert wrong != CAPITAL.value
    assert wrong in {f.value for f in WORLD.facts if f.relation is CAPITAL.relation}
    assert WORLD.grade(QUESTION, f"The capital of {CAPITAL.entity} is {wrong}.") == 0.0


def test_saying_both_is_half_right_and_saying_nothing_is_wrong():
    wrong = WORLD.plausible_error(CAPITAL, seeded("test"))
    assert WORLD.grade(QUESTION, f"It is {CAPITAL.value} or {wrong}.") == 0.5
    assert WORLD.grade(QUESTION, "I do not know.") == 0.0


def test_a_value_is_not_found_inside_a_larger_one():
    amount = fact_of("place", "population")
    question = f"What is the population of {amount.entity}?"
    assert WORLD.grade(question, amount.value) == 1.0
    assert WORLD.grade(question, f"9{amount.value}") == 0.0
    assert WORLD.grade(question, f"7,{amount.value}") == 0.0


def test_an_answer_to_a_question_the_world_does_not_know_of_is_worth_nothing():
    assert WORLD.grade("What is the meaning of life?", "42") == 0.0
