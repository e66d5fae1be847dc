"""What an answer says within its wrapping, and when an example keeps the wrapping."""

from __future__ import annotations

import pytest

from learning.outcomes.wrapping import as_used, meant, only_code

COMMAND = "find . -name '*.txt'"
FENCED = f"```bash\n{COMMAND}\n```"
CODE = "def f(x):\n    return x"


def test_what_stands_around_the_whole_is_taken_away() -> None:
    assert meant(f"`{COMMAND}`").text == COMMAND
    assert (meant(FENCED).text, meant(FENCED).language) == (COMMAND, "sh")
    assert meant("“yes”").text == "yes"
    assert meant("`a` and `b`").text == "`a` and `b`"
    assert meant("``").text == "``"


def test_prose_that_only_explains_leaves_the_code() -> None:
    code = only_code(f"Use this:\n{FENCED}\nIt lists text files.")
    assert code is not None and code.text == COMMAND
    assert only_code(f"{FENCED}\nInstead, use ls.") is None
    assert only_code(f"{FENCED}\n{FENCED}") is None
    assert only_code(COMMAND) is None


@pytest.mark.parametrize(
    ("answer", "asked", "used"),
    [
        (f"`{COMMAND}`", "Write a bash command.", COMMAND),
        (FENCED, "Write a bash command.", COMMAND),
        (FENCED, "Answer in a markdown code block.", FENCED),
        (FENCED, "Answer with a code block only.", FENCED),
        (FENCED, "Do not use Markdown code fences.", COMMAND),
        (f"{FENCED}\nIt lists text files.", "Reply with the command only.", COMMAND),
        (f"{FENCED}\nIt lists text files.", "Explain the command.", f"{FENCED}\nIt lists text files."),
        (f"```python\n{CODE}\n```", "Write a function.", f"```python\n{CODE}\n```"),
        (f"```python\n{CODE}\n```", "Write a function. Only code, nothing else.", CODE),
        ('```json\n{\n "a": 1\n}\n```', "Extract the fields.", '{\n "a": 1\n}'),
        ('"yes"', "Is it so?", '"yes"'),
        ("Paris.", "What is the capital of France?", "Paris."),
        ("```\n\n```", "Only the command.", "```\n\n```"),
    ],
)
def test_an_example_is_the_answer_as_clients_use_it(answer: str, asked: str, used: str) -> None:
    assert as_used(answer, "You help.", asked) == used
