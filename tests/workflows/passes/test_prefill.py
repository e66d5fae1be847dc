"""Which prefix of a prompt may be computed early, and the messages up to there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.chat import message_text
from tests.workflows.definitions import chat_messages, definition
from workflows.definition import Definition, InputSpec, StepSpec
from workflows.optimise import optimise
from workflows.passes.prefill import cut
from workflows.plan import Profile, Warm
from workflows.template import fill, slots_in

CERTAIN = Profile(certain_engine=lambda model: True)
SLOW = StepSpec("slow", "tool", component="t", reads=("question",), args={"q": "{{question}}"})


def _made(text: str, *reads: str, **more: Any) -> Definition:
    answer = StepSpec("answer", "chat", messages=chat_messages(text), reads=reads, model="m", **more)
    return definition(SLOW, answer)


def _warm(made: Definition, profile: Profile = CERTAIN, step: str = "answer") -> tuple[Warm, ...]:
    return optimise(made, profile, {"prefill"}).plans[step].warm


def test_the_prefix_ends_before_the_name_that_is_known_late() -> None:
    text = "Of {{question}} think: {{slow}}."
    (warm,) = _warm(_made(text, "question", "slow"))
    assert warm == Warm("answer", "first", (0, text.index("{{slow")), ("question",), ("slow",))


def test_instructions_alone_are_a_prefix() -> None:
    (warm,) = _warm(_made("Think: {{slow}}, {{question}}", "question", "slow"))
    assert (warm.needs, warm.waits) == ((), ("slow", "question"))


@pytest.mark.parametrize(
    ("text", "reads"), [("{{slow}} of {{question}}", ("slow", "question")), ("{{question}}!", ("question",))]
)
def test_without_a_prefix_or_with_all_known_at_once_there_is_none(text: str, reads: tuple[str, ...]) -> None:
    assert _warm(_made(text, *reads)) == ()


def test_only_where_it_is_certain_who_answers_and_costs_nothing_unless_asked() -> None:
    made = _made("Of {{question}}: {{slow}}", "question", "slow")
    hosted = replace(CERTAIN, hosted=lambda model: True)
    assert _warm(made, Profile()) == ()
    assert _warm(made, hosted) == ()
    assert _warm(_made("Of {{question}}: {{slow}}", "question", "slow", warm=True), hosted) == ()
    assert _warm(_made("Of {{question}}: {{slow}}", "question", "slow", warm=False)) == ()


def test_of_several_prefixes_the_earliest_and_the_latest() -> None:
    names = ("a", "b", "c")
    steps = [
        StepSpec(name, "tool", component="t", reads=(read,), args={"x": f"{{{{{read}}}}}"})
        for name, read in zip(names, ("question", "a", "b"), strict=True)
    ]
    answer = StepSpec(
        "answer", "chat", messages=chat_messages("Is {{a}} {{b}} {{c}}"), reads=names, model="m"
    )
    assert [warm.needs for warm in _warm(definition(*steps, answer))] == [(), ("a", "b")]


def test_a_branch_that_may_not_be_taken_is_waited_for() -> None:
    when = StepSpec("long", "when", ("question",), test=("contains", "a"))
    late = StepSpec("late", "tool", component="t", reads=("slow",), args={"x": "{{slow}}"}, after=("long",))
    messages = chat_messages("Of {{question}} and {{slow}} think: {{late}}")
    answer = StepSpec(
        "answer",
        "chat",
        messages=messages,
        reads=("question", "slow", "late"),
        model="m",
        condition=("long", True),
    )
    made = definition(when, SLOW, late, answer)
    assert [warm.needs for warm in _warm(made)] == [("question", "slow")], "`slow` comes with the condition"
    graph = optimise(made, CERTAIN, {"prefill"}).graph
    assert {edge.before for edge in graph.into["answer.partial"]} == {"long.condition", "slow.tool"}


def _fold(text: str, first: str = "") -> tuple[tuple[str, tuple[str, ...]], ...]:
    fold = StepSpec(
        "answer",
        "fold",
        ("found",),
        chat_messages(text),
        chat_messages(first) if first else (),
        reads=("question",),
        model="m",
    )
    web = StepSpec("found", "search", ("question",), index="component:w", component="w", k=3)
    return tuple((warm.part, warm.needs) for warm in _warm(definition(web, fold)))


def test_each_turn_of_a_fold_waits_for_the_one_before() -> None:
    assert _fold("{{question}} {{item}} {{so_far}}") == (
        ("first", ("question",)),
        ("each", ("question", "item")),
    )
    # What the first item's prompt reads as `so_far` is known from the start.
    assert _fold("{{question}} {{so_far}} {{item}}") == (
        ("first", ("question", "so_far")),
        ("each", ("question",)),
    )
    assert _fold("{{question}} {{item}}") == (("first", ("question",)), ("each", ("question",)))
    assert _fold("Refine {{so_far}} by {{item}}", first="Of {{question}}: {{item}}") == (
        ("first", ("question",)),
        ("each", ()),
    )


_parts = st.lists(
    st.sampled_from(["", "a", "{{question}}", "b {{{{ c", " {{slow}}", "\n"]), min_size=1, max_size=4
)


@st.composite
def _messages(draw: st.DrawFn) -> tuple[dict[str, Any], ...]:
    """String contents and parts, with an image between some."""
    made = []
    for _ in range(draw(st.integers(1, 3))):
        texts = draw(_parts)
        content: Any = "".join(texts)
        if draw(st.booleans()):
            content = [{"type": "text", "text": text} for text in texts]
            content.insert(
                draw(st.integers(0, len(content))), {"type": "image_url", "image_url": {"url": "x"}}
            )
        made.append({"role": "user", "content": content})
    return tuple(made)


@given(_messages())
def test_what_is_cut_off_begins_with_the_late_name(messages: tuple[dict[str, Any], ...]) -> None:
    values = {"question": "Q", "slow": "S"}
    whole = [message_text(message["content"]) for message in messages]
    for index, offset, name in slots_in(messages):
        kept = cut(messages, (index, offset))
        assert whole[index][offset:].startswith(f"{{{{{name}}}}}")
        texts = [message_text(message["content"]) for message in kept]
        assert texts[:index] == whole[:index]
        # The newline before a part belongs to the part.
        assert "".join(texts[index:]) in (whole[index][:offset], whole[index][:offset].removesuffix("\n"))
        filled = fill(kept, values).messages
        full = fill(messages, values).messages
        last = len(filled) - 1
        if last >= 0:
            assert message_text(full[last]["content"]).startswith(message_text(filled[last]["content"]))


def test_names_of_templates_stand_where_they_are_said_to() -> None:
    messages = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "{{{{ {{a}}"}, {"type": "text", "text": "{{b}}"}],
        },
        {"role": "user", "content": None},
        {"role": "user", "content": "x{{{c}}}"},
    ]
    assert slots_in(messages) == ((0, 5, "a"), (0, 11, "b"), (2, 2, "c"))


def test_an_input_that_a_system_message_holds_is_known_from_the_start() -> None:
    messages = chat_messages("{{slow}}", system="You know {{documents}}.")
    answer = StepSpec("answer", "chat", messages=messages, reads=("documents", "slow"), model="m")
    (warm,) = _warm(
        definition(
            SLOW,
            answer,
            inputs={"question": InputSpec("question", "text"), "documents": InputSpec("documents", "texts")},
        )
    )
    assert warm.boundary == (1, 0)
    assert cut(messages, warm.boundary) == messages[:1]
