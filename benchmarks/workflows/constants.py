"""What the engines of workflows are simulated with: every figure is from the paper or reckoned from published ones.

They were written down before any result was looked at, and are part of the output. None of them is read by the product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.batching.batch import ENGINE_OF_TODAY, Speed
from engines.components.component import SimulatedPace

LLAMA_7B = Speed(step_s=0.025, kv_token_s=0.56e-6, prefill_token_s=390e-6, kv_tokens=12_600)
LLAMA_13B = Speed(step_s=0.026, kv_token_s=0.44e-6, prefill_token_s=450e-6, kv_tokens=17_000)
LLAMA_30B = Speed(step_s=0.028, kv_token_s=0.39e-6, prefill_token_s=210e-6, kv_tokens=46_800)
CORES: Mapping[str, Speed] = {
    "7b": LLAMA_7B,
    "13b": LLAMA_13B,
    "30b": LLAMA_30B,
    "today": ENGINE_OF_TODAY,
}
"""The models that write answers in section 7, and one of today."""


BGE_LARGE = SimulatedPace(fixed_s=0.05, per_item_s=0.025, dimensions=32)
GOOGLE = SimulatedPace(fixed_s=0.5, per_item_s=0.0, dimensions=32)


@dataclass(frozen=True, slots=True)
class Calibration:
    """All figures. Times in s, sizes in tokens."""

    core: str = "30b"
    replicas: int = 2
    per_call_batch: int = 4
    embedder: SimulatedPace = BGE_LARGE
    reranker: SimulatedPace = BGE_LARGE
    web: SimulatedPace = GOOGLE
    web_at_once: int = 8
    database_fixed_s: float = 0.01
    database_item_s: float = 0.002
    chunk_tokens: int = 256
    overlap_tokens: int = 30
    chunks: int = 48
    chunks_spread: float = 0.5
    queries: int = 3
    hits: int = 16
    top: int = 3
    query_tokens: int = 16
    answer_tokens: int = 32
    instruction_tokens: int = 60
    question_tokens: int = 20
    web_hits: int = 4
    web_hit_tokens: int = 100
    searched_share: float = 0.8
    contextual_document_tokens: int = 8_000
    contextual_chunk_tokens: int = 800
    contextual_answer_tokens: int = 100
    capped_tokens: int = 1_024
    low_load: float = 0.2
    high_load: float = 0.8
    sources: Mapping[str, str] = field(default_factory=lambda: SOURCES)

    @property
    def speed(self) -> Speed:
        """Of the model that writes answers."""
        return CORES[self.core]

    def as_json(self) -> dict[str, Any]:
        """For the output."""
        return {**asdict(self), "core_speed": asdict(self.speed), "small_speed": asdict(LLAMA_7B)}


SOURCES: Mapping[str, str] = {
    "core": "the model of the paper's ablations (Figures 9 and 10): llama-30B, an instance on two A800. A step reads 65 GB "
    "of weights over two GPUs at 2 TB/s (16 ms), 10 ms of launching and Python as in benchmarks.batching's engine of 2024, "
    "2 ms of all-reduce; 65 GFLOP a prompt token at half of 2 x 312 TFLOP/s; 1.56 MB of keys and values a token; 73 GB for "
    "them. 7b: one 3090 (14 GB at 936 GB/s, half of 71 TFLOP/s, 6.6 GB left). 13b: two of them, all-reduce over PCIe.",
    "replicas": "section 7.1: two instances of each model, one of everything else",
    "per_call_batch": "the issue, after Figure 4: per-call oriented engines take four requests at a time",
    "embedder": "Figure 4: 48 chunks take 1.8 s in batches of 4 and 1.35 s in batches of 16: 50 ms and 25 ms a chunk",
    "reranker": "bge-reranker-large has the transformer of bge-large, and its pairs hold a chunk and a question: as above",
    "web": "Google custom search: half a second, not measured; several at once",
    "database": "pgvector: 10 ms for a statement, 2 ms a row or a query; not measured",
    "chunk_tokens": "section 7: 256, 30 of them of the chunk before",
    "chunks": "Figure 4: 48 chunks a document; drawn evenly from half to one and a half of that",
    "queries": "section 7: three new queries; 16 chunks found for each, the best three are read",
    "query_tokens": "a question of TruthfulQA written anew; drawn evenly from half to one and a half of that",
    "answer_tokens": "so that other engines than the model take about half of document QA, as in Figure 1; an answer of "
    "TruthfulQA has 10 to 20 words. Drawn evenly from half to one and a half of that",
    "instruction_tokens": "section 7.1: usually about 60 tokens",
    "web_hits": "section 7: the first four entities; their length is a snippet's, not told",
    "searched_share": "not told in the paper: how often the judge wants a search",
    "contextual": "Anthropic, Introducing Contextual Retrieval (2024): documents of 8,000 tokens, chunks of 800, 100 "
    "tokens of context each",
    "capped_tokens": "Figure 7: a model's slots are 1,024 tokens. Only where a row says so, and then for both sides: models "
    "that batch continuously have no slots",
    "loads": "low and high rate: a fifth and four fifths of what the busiest engine carries in batches of four",
}
