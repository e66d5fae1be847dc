"""The simulated reader: quotes what its prompt says, and rewords questions."""

import json

from simulation.quoting import NOTHING, quoted


def said(text: str, system: str = "") -> str:
    messages = [{"role": "system", "content": system}] if system else []
    return quoted([*messages, {"role": "user", "content": text}])


PASSAGE = "Ostrel is the capital of Varen. It lies on the river Mim.\nBread is made of flour."


def test_it_quotes_the_sentence_that_has_most_words_of_the_question():
    assert said(f"Passage: {PASSAGE}\nWhat is the capital of Varen?") == "Ostrel is the capital of Varen."
    assert said(f"Of what is bread made?\n\n{PASSAGE}") == "Bread is made of flour."
    assert said(f"Which river does it lie on? {PASSAGE}", system="Answer.") == "It lies on the river Mim."


def test_it_says_so_where_nothing_fits():
    assert said(f"Who painted the ceiling? {PASSAGE}") == NOTHING
    assert said("") == NOTHING


def test_of_two_alike_the_later_one_stays():
    prompt = "Where is Ostrel?\nPassage: Ostrel is far.\nSo far: Ostrel is near."
    assert said(prompt) == "Ostrel is near."


def test_it_rewords_a_question_as_a_json_list():
    asked = json.loads(said("Rewrite in 3 ways, as a JSON list: What is the capital of Varen?"))
    assert asked == ["What is the capital of Varen?", "capital varen", "varen"]
    assert len(json.loads(said("Write 2 queries as a JSON list: Who made the big old clock?"))) == 2
    assert json.loads(said("As a JSON array.\nbread")) == ["bread"]
