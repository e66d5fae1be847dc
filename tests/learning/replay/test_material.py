"""An example is asked again as it was asked: under its own instructions, by its own model's engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.engine import Engine
from learning.bank.demonstrations import as_chat
from learning.replay.material import Material, NotReplayable, request
from router.digest import NO_INSTRUCTIONS, asked_under, instructions, scope, scope_of
from simulation.engine import SimulatedEngine
from store import Store
from store.admission import Admission
from store.examples.twins import TwinRule
from tests.knobs import admission_settings
from tests.learning.replay.replaying import lead
from tests.store.rows import new_example

FORM = {"type": "json_object"}


def test_a_question_is_put_under_the_very_instructions_it_came_under() -> None:
    chat = as_chat(
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "developer", "content": [{"type": "text", "text": "In French."}]},
                {"role": "user", "content": "Why?"},
            ],
            "response_format": FORM,
        }
    )
    under = instructions(chat)
    again = as_chat(asked_under(under, "And how?"))
    assert scope(again) == scope(chat) == scope_of(under)
    assert [m["content"] for m in again.messages] == ["Be brief.", "In French.", "And how?"]
    sent = request(lead(), under, "And how?", max_tokens=9)
    assert (sent.fields["response_format"], sent.fields["max_tokens"], sent.model) == (FORM, 9, "lead")
    assert not sent.stream


def test_instructions_that_hold_a_secret_or_a_person_are_not_kept() -> None:
    rules = Admission(admission_settings())
    assert rules.may_keep_instructions('[["You are the help desk of a large organisation."],null]')
    assert not rules.may_keep_instructions(
        '[["Use the password hunter2: sk-proj-Zk3vQ9xT7mLpR2wYb8NfHc4JdUeG6sAo."],null]'
    )
    assert not rules.may_keep_instructions('[["You talk to ann.smith@example.org, +1 212 555 0123."],null]')
    assert not rules.may_keep_instructions("x" * 9000)


def test_engines_are_those_of_the_model_that_an_example_came_by(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    engines: dict[str, Engine] = {name: named(name) for name in ("s1", "l1", "s2", "l2", "gen")}
    material = Material(
        store,
        engines,
        [("s1", "l1"), ("s2", "l2")],
        Admission(admission_settings()),
        TwinRule(),
        generator="gen",
    )

    def who(source: str) -> tuple[str, str | None, str]:
        example = store.examples.add(
            new_example(hash(source) % 1000, source_engine=source, request_id=source)
        ).result()
        found = material.engines_for(example)
        assert found is not None
        small = None if found.small is None else found.small.info.name
        return found.reference.info.name, small, found.generator.info.name

    assert who("l2") == ("l2", "s2", "gen")
    assert who("s1") == ("l1", "s1", "gen")
    assert who("an import") == ("l1", "s1", "gen"), "from elsewhere: the first model's"
    nobody = Material(store, engines, [], Admission(admission_settings()), TwinRule())
    assert nobody.engines_for(store.examples.page("a1")[0]) is None
    alone = Material(store, engines, [], Admission(admission_settings()), TwinRule(), engine="l1")
    found = alone.engines_for(store.examples.page("a1")[0])
    assert found is not None
    assert (found.small, found.generator.info.name) == (None, "l1")
    plain = store.examples.add(new_example(5, scope=scope_of(NO_INSTRUCTIONS))).result()
    assert material.subject("a1", plain.id).instructions == NO_INSTRUCTIONS
    for subject, why in (
        ((nobody, plain.id), "no_engine"),
        ((material, 99), "gone"),
        ((material, store.examples.page("a1")[0].id), "instructions_not_kept"),
    ):
        with pytest.raises(NotReplayable, match=why):
            subject[0].subject("a1", subject[1])
    store.close()


def named(name: str) -> SimulatedEngine:
    made = lead()
    made._info = type(made.info)(name, name)
    return made
