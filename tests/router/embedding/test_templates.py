"""Of prompts that share most of their text only what is asked is compared: with the real embedder, and by hand."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from router.embedding import model as embedding_model
from router.embedding.embedder import Embedder
from router.embedding.templates import KNOWN_FROM, Digest, Templates
from store.records import Example, Vector
from tests.flow.line import MODELS
from tests.prompts import ODDITIES, PROMPTS, TOPICS, Prompt, Topic, rules
from understudy.settings.models import FewShotSettings

THETA, M = FewShotSettings().theta, FewShotSettings().m


@pytest.fixture(scope="module")
def real() -> Iterator[Embedder]:
    if importlib.util.find_spec(embedding_model.PACKAGE) is None:
        pytest.skip("the weights package is not installed")
    embedder = Embedder.open("package", MODELS, deadline_ms=60_000)
    yield embedder
    embedder.close()


@dataclass
class Kept:
    topic: Topic
    text: str
    digest: Digest
    vector: Vector


@dataclass
class Bank:
    """Remembers every request, and embeds anew what came before a template was learnt."""

    embedder: Embedder
    templates: Templates = field(default_factory=Templates)
    kept: list[Kept] = field(default_factory=list)

    def near(self, topic: Topic, text: str) -> list[Topic]:
        """What the request's nearest are about; it is remembered itself."""
        asked = self.templates.asked("t", "s", text)
        vector = self.embedder.embed_blocking(asked.text)
        near = [
            kept.topic
            for kept in self.kept
            if float(vector @ kept.vector) >= THETA and self.templates.comparable(asked, example(kept))
        ]
        self.kept.append(Kept(topic, text, asked, vector))
        return near

    def follow(self) -> None:
        for kept in self.kept if self.templates.news() else ():
            digest = self.templates.digest("t", "s", kept.text)
            if digest != kept.digest:
                kept.digest, kept.vector = digest, self.embedder.embed_blocking(digest.text)


def example(kept: Kept) -> Example:
    return Example(1, 1, "t", "s", kept.text, "A.", "large", 0.0, embedded_text=kept.digest.text)


def unrelated() -> list[tuple[Topic, str]]:
    """Every question about something else; where a topic comes again it is in other words."""
    return [(topic, topic.questions[0]) for topic in (*ODDITIES, *TOPICS)]


@pytest.mark.parametrize("follows", [True, False], ids=["embedded anew", "not embedded anew yet"])
@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=list(PROMPTS))
def test_unrelated_questions_in_one_template_are_never_near(
    real: Embedder, prompt: Prompt, follows: bool
) -> None:
    bank = Bank(real)
    for topic, question in unrelated():
        assert not bank.near(topic, prompt(question, topic.passage)), question
        if follows:
            bank.follow()


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=list(PROMPTS))
def test_paraphrases_in_one_template_are_near_once_it_is_known(real: Embedder, prompt: Prompt) -> None:
    bank = Bank(real)
    first, later = slice(0, M + 1), slice(M + 1, None)
    for topic, question in [(t, q) for t in TOPICS for q in t.questions[first]]:
        assert set(bank.near(topic, prompt(question, topic.passage))) <= {topic}
        bank.follow()
    for topic, question in [(t, q) for t in TOPICS for q in t.questions[later]]:
        near = bank.near(topic, prompt(question, topic.passage))
        assert len(near) >= M and set(near) == {topic}, question
        bank.follow()


@pytest.mark.slow
def test_templates_that_take_turns_under_the_same_instructions_are_told_apart(real: Embedder) -> None:
    bank = Bank(real)
    for topic, question in unrelated():
        for prompt in PROMPTS.values():
            # The same question in another template asks for something else.
            assert not bank.near(topic, prompt(question, topic.passage)), question
            bank.follow()


def test_one_answer_that_was_kept_often_makes_no_template_familiar_before_it_is_known(real: Embedder) -> None:
    """Three equal requests are one text, so their head is not known yet."""
    bank = Bank(real)
    prompt = PROMPTS["support, 400 characters, question last"]
    for _ in range(3):
        bank.near(TOPICS[0], prompt(TOPICS[0].questions[0], ""))
    assert not bank.near(TOPICS[1], prompt(TOPICS[1].questions[0], ""))


HEAD = rules(400)


def learnt(texts: list[str], scope: str = "s") -> Templates:
    templates = Templates()
    for text in texts:
        templates.asked("t", scope, text)
    return templates


def questions(count: int) -> list[str]:
    return [f"{HEAD}\nWhat is number {n}?" for n in range(count)]


def test_what_different_texts_share_is_left_out_from_the_fourth_on() -> None:
    templates = learnt(questions(KNOWN_FROM - 1))
    assert templates.digest("t", "s", questions(1)[0]).left_out == 0
    assert templates.asked("t", "s", f"{HEAD}\nAnd this?").text == "And this?"
    assert templates.news() == {("t", "s")} and not templates.news()
    assert templates.digest("t", "s", questions(1)[0]).text == "What is number 0?"


def test_a_text_that_comes_again_teaches_nothing() -> None:
    assert learnt(questions(1) * 10).digest("t", "s", questions(2)[1]).left_out == 0


def test_a_text_without_anything_known_is_embedded_as_it_is() -> None:
    text = "What is\n\n  this?  And that: is it > 3?"
    assert learnt(questions(9)).digest("t", "s", text) == Digest(text)


def test_a_greeting_and_a_thank_you_that_all_texts_share_stay() -> None:
    polite = "Hello and good morning to all of you,\n{}?\nThank you very much for your help in advance."
    templates = learnt([polite.format(f"how do I reach number {n}") for n in range(9)])
    assert templates.digest("t", "s", polite.format("who is it")) == Digest(polite.format("who is it"))


def test_other_tenants_and_other_instructions_learn_nothing() -> None:
    templates = learnt(questions(9))
    for tenant, scope in (("other", "s"), ("t", "other")):
        assert templates.digest(tenant, scope, questions(1)[0]).left_out == 0


def test_what_one_end_user_sent_is_known_for_that_user_until_another_sends_it() -> None:
    templates = learnt(questions(9), scope="s/ann")
    assert templates.digest("t", "s/ann", questions(1)[0]).left_out
    assert not templates.digest("t", "s/bob", questions(1)[0]).left_out
    assert not templates.digest("t", "s", questions(1)[0]).left_out
    templates.asked("t", "s/bob", questions(1)[0])
    assert templates.digest("t", "s/bob", questions(1)[0]).left_out


def test_a_line_with_a_date_or_an_order_number_is_never_part_of_a_template() -> None:
    dated = "Order 10045678 was placed on 2026-11-22."
    templates = learnt([f"{HEAD}\n{dated}\nWhat is number {n}?" for n in range(9)])
    assert templates.digest("t", "s", f"{HEAD}\n{dated}\nWhere is it?").text.startswith("Order 10045678")


def test_texts_of_which_other_lines_were_left_out_are_not_compared() -> None:
    tasks = [f"{HEAD}\nTranslate what follows into {x}:" for x in ("French", "German")]
    templates = learnt([f"{task}\nText number {n}" for task in tasks for n in range(9)])
    french, german = (templates.digest("t", "s", f"{task}\nGood evening.") for task in tasks)
    assert french.text == german.text == "Good evening." and french.left_out != german.left_out
    kept = Example(
        1, 1, "t", "s", f"{tasks[0]}\nGood evening.", "Bonsoir.", "large", 0.0, embedded_text="Good evening."
    )
    assert templates.comparable(french, kept) and not templates.comparable(german, kept)


def test_an_example_whose_embedding_is_of_the_whole_text_is_not_compared() -> None:
    templates, text = learnt(questions(9)), questions(1)[0]
    asked = templates.digest("t", "s", text)
    assert not templates.comparable(
        asked, Example(1, 1, "t", "s", text, "A.", "large", 0.0, embedded_text=text)
    )
    assert templates.comparable(
        asked, Example(1, 1, "t", "s", text, "A.", "large", 0.0, embedded_text=asked.text)
    )


def test_a_line_that_admission_redacted_is_the_same_line() -> None:
    templates = learnt([f"{HEAD}\nWrite to help@acme.com.\nWhat is number {n}?" for n in range(9)])
    asked = f"{HEAD}\nWrite to help@acme.com.\nWhere is it?"
    kept = asked.replace("help@acme.com", "[EMAIL]")
    assert templates.digest("t", "s", kept) != templates.digest("t", "s", asked)
    templates.kept_as("t", "s", asked, kept)
    assert (
        templates.digest("t", "s", kept)
        == templates.digest("t", "s", asked)
        == Digest("Where is it?", templates.digest("t", "s", asked).left_out)
    )


def test_what_is_remembered_is_bounded_and_what_was_met_last_stays() -> None:
    templates = Templates(scopes=2, pieces=20)
    for n in range(200):
        for scope in "a" if n < 9 else "bc":
            templates.asked("t", scope, f"{HEAD}\nWhat is number {n}?\nAnd {n} more?")
    assert templates.known() == [("t", "b"), ("t", "c")]
    assert len(templates._learnt["t", "c"].pieces) == 20
    assert templates.digest("t", "c", questions(1)[0]).text == "What is number 0?"
    assert not templates.digest("t", "a", questions(1)[0]).left_out


def test_no_text_is_remembered() -> None:
    templates = learnt(questions(9))
    remembered = templates._learnt["t", "s"]
    assert all(type(name) is int for kept in (remembered.pieces, remembered.texts) for name in kept)


def test_a_very_long_text_is_read_at_both_ends_only() -> None:
    templates = Templates()
    for n in range(9):
        templates.asked("t", "s", f"{HEAD}\n{chr(97 + n) * 500_000}\nWhat is number {n}?")
    digest = templates.asked("t", "s", f"{HEAD}\n{'z' * 500_000}\nWhere is it?")
    assert HEAD.splitlines()[0] not in digest.text and digest.text.endswith("Where is it?")
    assert len(digest.text) <= 1500
