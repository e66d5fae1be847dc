"""What a cross-encoder learns from: outcomes with the texts of the request and of the examples that were sent.

The log keeps no request's text, for it is not the log's to keep. A logged request can be learnt from only where the bank
holds its question, as it does of what the reference engine answered; all others are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from learning.training.scorer.rows import Row, VectorsOf, rows_from_log
from store.records import ChoiceRecord, OutcomeRecord

if TYPE_CHECKING:
    import numpy.typing as npt

SEPARATOR = "[SEP]"
_TEACHER = "(teacher)"
"""Stands where an outcome names its engine, and is no reference engine."""
UNKNOWN_QUALITY = 0.5
"""Of a row that nobody observed: it is there to be asked about, never to be learnt from as it is."""


@dataclass(frozen=True, slots=True)
class TextRow:
    """An outcome and what was read."""

    row: Row
    request: str
    """What was embedded: router.digest.question."""
    examples: tuple[str, ...]
    """`shown` of each, in the row's order."""


TextsOf = Callable[[Sequence[int]], Mapping[int, tuple[str, str]]]
"""From example ids to question and answer; ids that are gone are left out."""
QuestionsOf = Callable[[Sequence[str]], Mapping[str, str]]
"""From request ids to the question that the bank holds of them; others are left out."""


def shown(question: str, answer: str) -> str:
    """An example as the cross-encoder reads it; what router.examples.scorer shows it."""
    return f"{question}\n{answer}"


def text_rows_from_log(
    choices: Iterable[tuple[ChoiceRecord, Sequence[OutcomeRecord]]],
    vectors_of: VectorsOf,
    texts_of: TextsOf,
    questions_of: QuestionsOf,
    *,
    embedding_version: str = "",
) -> list[TextRow]:
    """The rows of learning.training.scorer.rows.rows_from_log whose texts are all known, oldest first."""
    logged = list(choices)
    asked = questions_of([choice.request_id for choice, _ in logged])
    found: list[TextRow] = []
    for choice, outcomes in logged:
        if choice.request_id not in asked:
            continue
        # One by one, since rows do not name their examples; of several outcomes for the same answer the last one counts.
        latest = sorted(outcomes, key=lambda o: (o.at_s, o.id))
        for outcome in {(o.engine, o.example_ids): o for o in latest}.values():
            texts = texts_of(outcome.example_ids) if outcome.example_ids else {}
            if any(id not in texts for id in outcome.example_ids):
                continue
            rows = rows_from_log([(choice, [outcome])], vectors_of, embedding_version=embedding_version)
            examples = tuple(shown(*texts[id]) for id in outcome.example_ids)
            found += [TextRow(row, asked[choice.request_id], examples) for row in rows]
    return sorted(found, key=lambda one: (one.row.at_s, one.row.request_id))


def candidate_rows_from_log(
    choices: Iterable[ChoiceRecord],
    vectors_of: VectorsOf,
    texts_of: TextsOf,
    questions_of: QuestionsOf,
    *,
    embedding_version: str = "",
) -> list[TextRow]:
    """One row for each request with every candidate that was scored, sent or not, for a teacher to judge.

    Their quality is UNKNOWN_QUALITY: see router.learning.distillation. Left out is what `text_rows_from_log` leaves out,
    candidate by candidate.
    """
    logged = list(choices)
    asked = questions_of([choice.request_id for choice in logged])
    found: list[TextRow] = []
    for choice in logged:
        if choice.request_id not in asked:
            continue
        ids = [int(candidate["id"]) for candidate in choice.candidates]
        texts, vectors = texts_of(ids), vectors_of(ids)
        known = tuple(id for id in ids if id in texts and id in vectors)
        asking = OutcomeRecord(
            choice.request_id,
            choice.tenant,
            choice.at_s,
            "judge",
            "",
            _TEACHER,
            known,
            False,
            UNKNOWN_QUALITY,
        )
        rows = rows_from_log([(choice, [asking])], vectors_of, embedding_version=embedding_version)
        examples = tuple(shown(*texts[id]) for id in known)
        found += [TextRow(row, asked[choice.request_id], examples) for row in rows]
    return sorted(found, key=lambda one: (one.row.at_s, one.row.request_id))


class PairReader:
    """From texts to token ids, exactly as router.examples.scorer.Scorer reads them when it serves. Any thread may ask."""

    def __init__(self, tokenizer: Path, max_tokens: int) -> None:
        """`tokenizer`: a `tokenizer.json`. Pairs are cut to `max_tokens`, the longer text first."""
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        # The file's own settings are for training batches of a sentence encoder.
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        separator = self._tokenizer.token_to_id(SEPARATOR)
        if separator is None:
            raise ValueError(f"{tokenizer} has no token {SEPARATOR}")
        self.separator: int = separator

    def read(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        """Token ids and token types of each (request, example)."""
        return [(e.ids, e.type_ids) for e in self._tokenizer.encode_batch(list(pairs))]


def padded(read: Sequence[tuple[list[int], list[int]]]) -> dict[str, npt.NDArray[np.int64]]:
    """What the model is fed: input_ids, attention_mask and token_type_ids, (pairs, tokens of the longest)."""
    width = max(len(ids) for ids, _ in read)
    feeds = {
        name: np.zeros((len(read), width), np.int64)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    }
    for place, (ids, types) in enumerate(read):
        feeds["input_ids"][place, : len(ids)] = ids
        feeds["attention_mask"][place, : len(ids)] = 1
        feeds["token_type_ids"][place, : len(ids)] = types
    return feeds
