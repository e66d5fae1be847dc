"""Recorded questions with right answers, and the bank of the other ones: what the offline arms are asked."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.effect.streams import COMMANDS, same_label, shared_words, unwrapped
from benchmarks.helpfulness.cases import Case, cases, one_text_one_group
from benchmarks.recorded import rows, there
from benchmarks.vectors import embedded

HELD_OUT = 120
"""Questions that no bank holds, at least; with fewer asked, the bank is the same."""
SEED = 7
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Set:
    """Questions under one instruction, and a bank of past ones with answers."""

    key: str
    title: str
    case: Case
    instruction: str
    most_tokens: int
    """Of an answer."""
    grade: Callable[[str, str], float]
    """(answer, right answer): 0 to 1, of every right answer the best counts."""
    exact: Callable[[str, str], float]
    right: Sequence[tuple[str, ...]]
    """Of every place."""
    asked: list[int]
    """Places of the questions, in the order in which they are asked; one of each group."""
    bank: np.ndarray
    """Places of the past ones, of other groups than any question's."""
    ids: list[str]
    recorded_large: bool = False
    """Whether the bank's answers are those of the large model itself, which is not asked again."""
    arms: frozenset[str] = frozenset()
    """Those of asking.py that only some sets are worth."""

    def score(self, place: int, answer: str) -> tuple[float, float]:
        """Of an answer to a question: grade, and 1 where it is exactly right."""
        right = self.right[place]
        return max(self.grade(answer, one) for one in right), max(self.exact(answer, one) for one in right)


def command(text: str) -> str:
    """A command but for its wrapping, its kind of quotes and its blanks."""
    return " ".join(unwrapped(text).replace('"', "'").split())


def shared_of_words(answer: str, right: str) -> float:
    """F1 of the words of an answer in free words, as of SQuAD (Rajpurkar et al. 2016)."""
    return shared_words(" ".join(_words(answer)), " ".join(_words(right)))


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in ("a", "an", "the")]


def last_number(text: str) -> str:
    """The last number of a text, without thousands separators and a fraction of nothing; empty where there is none."""
    found = _NUMBER.findall(text)
    return re.sub(r"\.0+$", "", found[-1].replace(",", "")) if found else ""


def _same(of: Callable[[str], object]) -> Callable[[str, str], float]:
    return lambda answer, right: float(of(answer) == of(right))


def _nl2bash(data: Path, cache: Path, number: int) -> Set:
    name = "bank_nl2bash_open"
    case = _case(name, data, cache)
    read = [row for row in rows(data / f"{name}.jsonl.gz") if row["response"].split()]
    return Set(
        "nl2bash", "nl2bash: a task in words into one command; score: F1 of the command's words", case, COMMANDS, 64,
        shared_words, _same(command), [(answer,) for answer in case.answers],
        *_split(case, number), [row["id"] for row in read],
        arms=frozenset({"own", "shares", "large with examples", "best of three"}),
    )  # fmt: skip


def _banking77(data: Path, cache: Path, number: int) -> Set:
    name = "caching_banking77_gpt4"
    case = _case(name, data, cache)
    read = rows(data / f"{name}.jsonl.gz")
    labels = sorted({row["gold"].replace("_", " ") for row in read})
    said = "Classify the bank customer's message. Answer with one of these labels and nothing else:\n"
    return Set(
        "banking77", "banking77: 77 labels, the bank's are GPT-4's; score: the label that people gave", case,
        said + "\n".join(labels), 24, same_label, same_label, [(row["gold"],) for row in read],
        *_split(case, number), [row["id"] for row in read], recorded_large=True,
    )  # fmt: skip


def _webquestions(data: Path, cache: Path, number: int) -> Set:
    name = "bank_webquestions_test"
    case = _case(name, data, cache)
    read = [row for row in rows(data / f"{name}.jsonl.gz") if row["answers"]]
    return Set(
        "webquestions", "WebQuestions: questions for facts; score: F1 of words, of the best right answer",
        case, "Answer the question with a name, a place, a date or a few words, and nothing else.", 32,
        shared_of_words, _same(_words), [tuple(row["answers"]) for row in read],
        *_split(case, number), [row["id"] for row in read],
    )  # fmt: skip


def _gsm8k(data: Path, cache: Path, number: int) -> Set:
    name = "bank_gsm8k_train"
    read = rows(data / f"{name}.jsonl.gz")
    prompts = [row["prompt"] for row in read]
    # The annotations of a calculator are not for readers.
    answers = [re.sub(r"<<.*?>>", "", row["response"]) for row in read]
    right = [(last_number(answer),) for answer in answers]
    case = Case(
        name, "questions", prompts, answers, [frozenset(one) for one in right], one_text_one_group(prompts),
        embedded(prompts, cache), None,
    )  # fmt: skip
    return Set(
        "gsm8k", "gsm8k: problems in several sentences, worked answers; score: the last number is right", case,
        "Solve the problem step by step, in few words. End with a line of the form: #### NUMBER", 256,
        _same(last_number), _same(last_number), right, *_split(case, number), [row["id"] for row in read],
    )  # fmt: skip


SETS = {"nl2bash": _nl2bash, "banking77": _banking77, "webquestions": _webquestions, "gsm8k": _gsm8k}
"""What matters most comes first."""


def question_set(key: str, data: Path, cache: Path, number: int) -> Set:
    """A set by its key, with `number` questions. Raises NoData."""
    return SETS[key](data, cache, number)


def _case(name: str, data: Path, cache: Path) -> Case:
    there(data / f"{name}.jsonl.gz")
    return next(cases(data, cache, named=[name]))


def _split(case: Case, number: int) -> tuple[list[int], np.ndarray]:
    """One question of each of so many groups, and what is of no such group, nor of those that are held out beside."""
    first: dict[int, int] = {}
    order = list(range(len(case.prompts)))
    random.Random(SEED).shuffle(order)
    for place in order:
        first.setdefault(case.groups[place], place)
    held = list(first.items())[: max(HELD_OUT, number)]
    groups = {group for group, _ in held}
    bank = [place for place, group in enumerate(case.groups) if group not in groups]
    return [place for _, place in held[:number]], np.array(bank)
