import random

from simulation.names import SHAPES, tokens
from simulation.phrasing import CLOSERS, DISTRACTIONS, FRAMES, OPENERS, STORIES
from simulation.reading import _phrases, _places
from simulation.topics import TOPICS


def gives_away(relation, text):
    words = tuple(tokens(text.replace("{e}", " ").replace("{other}", " ")))
    return any(_places(phrase, words, together=together) for phrase, together in _phrases(relation))


def test_every_question_of_a_relations_own_gives_the_relation_away():
    for topic in TOPICS:
        for relation in topic.relations:
            for form in relation.forms:
                assert "{e}" in form
                assert gives_away(relation, form), (topic.kind, relation.key, form)


def test_what_people_say_around_a_question_gives_nothing_away():
    around = (*OPENERS, *CLOSERS, *STORIES, *DISTRACTIONS, *(f.replace("{n}", "") for f, _ in FRAMES))
    for topic in TOPICS:
        for relation in topic.relations:
            for text in around:
                assert not gives_away(relation, text), (topic.kind, relation.key, text)


def test_every_relation_has_several_values_and_a_rule_depends_on_the_name_alone():
    rng = random.Random(1)
    for topic in TOPICS:
        for relation in topic.relations:
            name = SHAPES[topic.kind](rng)
            if relation.rule is not None:
                assert relation.draw is None
                assert relation.rule(name) == relation.rule(name) != relation.rule(SHAPES[topic.kind](rng))
            else:
                assert len({relation.draw(rng) for _ in range(60)}) >= 6
