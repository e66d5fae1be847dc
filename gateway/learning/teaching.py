"""Training with texts: a cross-encoder from what was logged, and its opinions as soft labels for the fast scorer.

Texts come from the tenant's own bank and, for requests that never became an example, from its log of texts, where that is
kept. Requests whose text is nowhere are left out. Needs torch (extra `train`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from router.digest import question
from router.embedding.model import locate
from store.decisions.outcomes import Experience
from store.examples.texts import ExampleTexts
from store.store import Memory

if TYPE_CHECKING:
    from learning.training.scorer.rows import Row, VectorsOf
    from learning.training.scorer.training import Trained
    from router.learning.cross_encoder_texts import QuestionsOf, TextsOf

Tell = Callable[[str], None]


def texts_of(store: Memory, tenant: str) -> TextsOf:
    """Example ids to question and answer, of this tenant only."""
    reader = ExampleTexts(store.db)
    return lambda ids: reader.of(tenant, ids)


def questions_of(store: Memory, tenant: str) -> QuestionsOf:
    """Request ids to the text that was embedded: as the bank has it, else made anew from the log of texts."""
    reader = ExampleTexts(store.db)

    def found(request_ids: Sequence[str]) -> dict[str, str]:
        asked = reader.asked(tenant, request_ids)
        for id in request_ids:
            if id in asked:
                continue
            texts = store.texts.get(tenant, id)
            # Where earlier messages were too much to keep, what they said of the last one is not known.
            if texts is not None and texts.messages is not None and not texts.left_out:
                said = question(texts.messages)
                if said:
                    asked[id] = said
        return asked

    return found


@dataclass(frozen=True, slots=True)
class Lesson:
    """What there is to train on with texts, of one tenant and model."""

    store: Memory
    tenant: str
    experiences: Sequence[Experience]
    vectors: VectorsOf
    embedding_version: str
    incumbent: bytes
    """The scorer to beat, with the `features` signature."""
    embedder: str
    """Where the embedder's weights come from (router.embedding.model.locate): the cross-encoder starts from them."""
    seed: int
    tell: Tell

    def cross_encoder(self, before_s: float | None = None) -> Trained:
        """A cross-encoder trained on the outcomes whose texts are known; `before_s`: only on older ones. Takes minutes.

        Raises as router.learning.cross_encoder.trained_cross_encoder does, and EmbeddingModelMissing.
        """
        from router.learning.cross_encoder import trained_cross_encoder
        from router.learning.cross_encoder_texts import text_rows_from_log

        rows = text_rows_from_log(
            [(e.choice, e.outcomes) for e in self._older(before_s)],
            self.vectors,
            texts_of(self.store, self.tenant),
            questions_of(self.store, self.tenant),
            embedding_version=self.embedding_version,
        )
        self.tell(f"{len(rows)} outcomes with texts")
        return trained_cross_encoder(
            rows, self.incumbent, locate(self.embedder), seed=self.seed, tell=self.tell
        )

    def soft_labels(self, rows: Sequence[Row]) -> list[Row]:
        """What a cross-encoder thinks of candidates that nobody tried: `taught` of
        learning.training.scorer.training.trained.

        `rows`: the outcomes that the student will be trained on. The teacher neither learns from nor is asked about
        anything as late as those that will decide over it. Raises as `cross_encoder` does.
        """
        from router.learning.cross_encoder import Teacher, held_out_from_s
        from router.learning.cross_encoder_texts import candidate_rows_from_log
        from router.learning.distillation import soft_rows

        before_s = held_out_from_s(rows)
        made = self.cross_encoder(before_s)
        self.tell(f"teacher: {made.reason}")
        candidates = candidate_rows_from_log(
            [e.choice for e in self._older(before_s)],
            self.vectors,
            texts_of(self.store, self.tenant),
            questions_of(self.store, self.tenant),
            embedding_version=self.embedding_version,
        )
        with Teacher(made.model, locate(self.embedder) / "tokenizer.json") as teacher:
            found = soft_rows(teacher, candidates, seed=self.seed, tell=self.tell)
        self.tell(f"{len(found)} soft labels")
        return found

    def _older(self, before_s: float | None) -> Sequence[Experience]:
        return [e for e in self.experiences if before_s is None or e.choice.at_s < before_s]
