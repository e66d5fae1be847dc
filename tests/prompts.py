"""Prompts as applications send them: ten templates of retrieval and of agents, and questions to put into them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.templates.rules import rules

AFTERWARDS = """\
Answer in one paragraph of plain text, without any introduction.
If the answer is not in the passages, reply with the two words: not known.
Afterwards check that every sentence of your answer is supported by a passage, and remove those that are not.
"""


@dataclass(frozen=True)
class Topic:
    """Something that people ask about: how they put it, and what is retrieved for it."""

    passage: str
    questions: tuple[str, ...]


TOPICS = (
    Topic(
        "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen inside the chloroplasts.",
        (
            "What is photosynthesis?",
            "Can you explain what photosynthesis is?",
            "What exactly is photosynthesis?",
            "Please explain photosynthesis to me.",
            "What does photosynthesis mean?",
            "Tell me what photosynthesis is.",
        ),
    ),
    Topic(
        "Goods may be sent back within thirty days; the money is returned to the card within five working days.",
        (
            "How long does a refund take?",
            "How long will my refund take?",
            "How many days does a refund take?",
            "How long does it take to get a refund?",
            "How long until I get my refund?",
            "When will I get my refund?",
        ),
    ),
    Topic(
        "Oslo lies at the end of a fjord in the south-east of Norway and has been its capital since 1814.",
        (
            "What is the capital of Norway?",
            "Which city is the capital of Norway?",
            "Which city is Norway's capital?",
            "Tell me the capital of Norway.",
            "What's Norway's capital city?",
            "Do you know the capital of Norway?",
        ),
    ),
    Topic(
        "The filter of the dishwasher is under the lower basket; turn it to the left, lift it out and rinse it.",
        (
            "How do I clean the filter of my dishwasher?",
            "How can I clean my dishwasher's filter?",
            "How do you clean a dishwasher filter?",
            "What is the way to clean the dishwasher filter?",
            "How should I clean the dishwasher filter?",
            "How to clean the filter in a dishwasher?",
        ),
    ),
    Topic(
        "In Python a list is sorted in place by its method sort, while sorted returns a new list.",
        (
            "How do I sort a list in Python?",
            "How can I sort a Python list?",
            "How to sort a list in Python?",
            "What is the way to sort a list in Python?",
            "How does one sort a list in Python?",
            "How would I sort lists in Python?",
        ),
    ),
    Topic(
        "The violin has four strings, tuned in fifths, and is held under the chin and played with a bow.",
        (
            "How many strings does a violin have?",
            "How many strings are there on a violin?",
            "What number of strings does a violin have?",
            "A violin has how many strings?",
            "How many strings has a violin got?",
            "How many strings are on a violin?",
        ),
    ),
)
ODDITIES = (
    Topic("Bread dough rises because yeast produces gas.", ("Why does bread rise?",)),
    Topic(
        "The first marathon of the modern games was run in Athens in 1896.", ("Who won the first marathon?",)
    ),
    Topic("Interest is compounded at the end of each quarter.", ("How is the interest calculated?",)),
    Topic("Haiku have three lines of five, seven and five syllables.", ("Write a haiku about autumn.",)),
    Topic("Seventeen is a prime number, and so is twenty-three.", ("What is 17 times 23?",)),
    Topic("Bats find their way by listening to echoes.", ("Do bats sleep in winter?",)),
    Topic(
        "The train to Lyon leaves from the southern station.", ("Which platform is the train to Lyon on?",)
    ),
    Topic("Concrete reaches most of its strength within a month.", ("When may I walk on new concrete?",)),
    Topic("A sonata has three or four movements.", ("Translate 'good evening' into Portuguese.",)),
    Topic("Parking is free on Sundays in the whole city.", ("Where can I park near the theatre?",)),
    Topic("The vaccine is given twice, four weeks apart.", ("Which vaccine does my dog need?",)),
    Topic("Mercury is the only metal that is liquid at room temperature.", ("At what heat does iron melt?",)),
)
"""What is asked once only; near to nothing else."""

Prompt = Callable[[str, str], str]


def _tagged(question: str, passage: str) -> str:
    return (
        f"<rules>{rules(700, 11)}</rules>\n<customer>number {len(question) * 7919 + len(passage)}</customer>\n"
        f"<question>{question}</question>"
    )


def _intents(question: str, _: str) -> str:
    names = (
        "delivery date, delivery address, delivery cost, order status, order change, order cancelled, refund status, "
        "refund policy, card refused, card charged twice, voucher code, voucher expired, invoice copy, invoice address, "
        "account locked, account deleted, password reset, newsletter, product question, product broken, spare parts, "
        "assembly help, warranty claim, store hours, complaint, praise, other"
    )
    listed = "\n".join(f"- {name}" for name in names.split(", "))
    return f"Decide which intent the message has. Reply with its name and nothing else.\n{listed}\n\nMessage: {question}"


PROMPTS: dict[str, Prompt] = {
    "support, 400 characters, question last": lambda q, p: f"{rules(400)}\n\nQuestion: {q}\nAnswer:",
    "retrieval, 700 characters, passage, question last": lambda q, p: (
        f"{rules(700, 3)}\n\nPassages:\n{p}\n\nQuestion: {q}"
    ),
    "retrieval, 1000 characters, passage, question last": lambda q, p: (
        f"{rules(1000, 6)}\n\nContext:\n[1] {p}\n\nQuestion: {q}\nHelpful answer:"
    ),
    "agent, 3000 characters, question last": lambda q, p: f"{rules(3000)}\n\nBegin!\n\nTask: {q}\nThought:",
    "question first, then 700 characters": lambda q, p: f"{q}\n\n{rules(700, 9)}",
    "question in the middle of 1000 characters": lambda q, p: (
        f"{rules(500, 12)}\n\nThe customer asks: {q}\n\nPassage: {p}\n\n{rules(500, 20)}"
    ),
    "head of 400 characters and a shared tail": lambda q, p: f"{rules(400, 15)}\n\n{q}\n\n{AFTERWARDS}",
    "all in one line": lambda q, p: f"{rules(700, 18).replace(chr(10), ' ')} Answer the question: {q}",
    "tags and a customer's number": _tagged,
    "fields of JSON in one line": lambda q, p: (
        f'{{"instructions": "{rules(1000, 25).replace(chr(10), " ")}", "passage": "{p}", "question": "{q}"}}'
    ),
    "intents in a list": _intents,
}
