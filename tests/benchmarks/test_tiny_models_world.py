"""The world of the tiny models: what a question is, what is right, and that its words are what a tokenizer can look up."""

from __future__ import annotations

import pytest

from benchmarks.tiny_models.vocabulary import make_tokenizer
from benchmarks.tiny_models.world import NOUNS, VERBS, World

WORLD = World()


def test_every_word_that_must_be_looked_up_is_one_token_and_any_text_can_be_read() -> None:
    tokenizer = make_tokenizer(WORLD)
    for word in (*(fact.town for fact in WORLD.facts), *VERBS, *NOUNS):
        assert len(tokenizer.encode(" " + word).ids) == 1
    text = "Any text – 漢字, \n tabs\t and <b>marks</b>."
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_the_template_of_the_serving_engine_writes_what_training_wrote() -> None:
    jinja2 = pytest.importorskip("jinja2")
    from benchmarks.tiny_models.vocabulary import CHAT_TEMPLATE, prompt

    said = [("system", "Be brief."), ("user", "Hi of X?"), ("assistant", "So."), ("user", "And?")]
    messages = [{"role": role, "content": content} for role, content in said]
    rendered = jinja2.Template(CHAT_TEMPLATE).render(messages=messages, add_generation_prompt=True)
    assert rendered == prompt(said)
