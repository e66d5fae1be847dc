"""Advice: what could stand earlier in a prompt, and what nobody reads."""

from __future__ import annotations

from typing import Any

from workflows.advice import advise
from workflows.declared import World, read_definition

WORLD = World({}, is_model=lambda name: True, taken=lambda name: False)
LONG = "Answer in two sentences, in the language of the question, and say where each fact was found. "


def advice(value: dict[str, Any], tokens: dict[str, int] | None = None) -> list[str]:
    given = {"inputs": {"question": "last_user", "documents": "texts"}, "model": "m", **value}
    found = advise(read_definition("wf", given, WORLD), tokens)
    return [f"{each.step}: {each.text}" for each in found]


def one(chat: str, tokens: dict[str, int] | None = None) -> list[str]:
    steps = {"top": {"rerank": "{{documents}}", "by": "{{question}}"}, "answer": {"chat": chat}}
    return advice({"steps": steps, "output": "answer"}, tokens)


def test_what_is_known_early_should_stand_before_what_comes_late() -> None:
    assert one("{{top}} {{question}}", {"question": 179}) == [
        "answer: put {{question}} before {{top}}: 180 tokens could be computed early"
    ]
    assert one("{{question}} {{top}}", {"question": 179}) == []
    assert one("{{top}} {{question}}", {"question": 3}) == []


def test_instructions_behind_a_late_value_are_named_by_their_beginning() -> None:
    (told,) = one("{{question}} {{top}} " + LONG)
    assert told.startswith("answer: put the text “Answer in two sentences") and "24 tokens" in told
    assert one(LONG + "{{question}} {{top}}") == []


def test_items_come_late_and_so_far_comes_last() -> None:
    fold = {"fold": "{{documents}}", "chat": "{{so_far}} {{item}} {{question}}"}
    found = advice({"steps": {"answer": fold}, "output": "answer"}, {"item": 200, "question": 100})
    assert [each.partition(":")[2].strip() for each in found] == [
        "put {{item}} before {{so_far}}: 201 tokens could be computed early",
        "put {{question}} before {{so_far}}: 101 tokens could be computed early",
    ]


def test_what_nothing_reads_is_named() -> None:
    found = advice(
        {
            "steps": {
                "lost": {"split": "{{documents}}"},
                "kept": {"ingest": "{{documents}}", "collection": "manuals"},
                "answer": {"map": "{{documents}}", "chat": "hello"},
            },
            "output": "answer",
        }
    )
    assert found == [
        "answer: it says the same for each item: put {{item}} into it, or ask once",
        ": nothing reads the input {{question}}: leave it out",
        "lost: nothing reads it, and it is not the output: leave it out",
    ]


def test_a_chain_without_pruning_names_what_could_begin_earlier() -> None:
    chain = [
        {"chunks": {"split": "{{documents}}"}},
        {"queries": {"chat": "{{question}}", "splits": "lines"}},
        {"answer": {"chat": "{{chunks}} {{queries}}"}},
    ]
    told = "could begin earlier: write `steps` instead of `chain`, or allow the pass prune"
    assert any(told in each for each in advice({"chain": chain, "output": "answer", "passes": []}))
    assert not any(told in each for each in advice({"chain": chain, "output": "answer"}))
