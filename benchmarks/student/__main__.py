"""How good is a student after so many labels, and how fast? `python -m benchmarks.student [--data DIR] [--quick]`

Accuracy: on RT-Polarity, trained on gpt-3.5's labels and tested against people's, beside a logistic regression over TF-IDF
that is fitted in the same run; and beside a network that starts from the one trained on half as many labels. Cost: the CPU
of a prediction and of the whole answer, of this process and all its threads, with the embeddings at hand; and how many
that makes in a second on one core. Ratios and shares may be compared between machines, times may not.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multidict import CIMultiDict
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from benchmarks.options import options, write
from benchmarks.recorded import NoData, rows
from benchmarks.tables import markdown
from benchmarks.vectors import Matrix, embedded
from engines.chat import ChatRequest
from engines.engine import EngineRequest
from engines.student import StudentEngine
from learning.tasks.training import Labelled, train
from router.tasks.student import Student
from understudy.processes.garbage_collection import calm_collector

SIZES = (500, 1000, 2000, 4000, 8662)
ROUNDS, REQUESTS = 9, 1000
FILE = "caching_rtpolarity_llm.jsonl.gz"


@dataclass(frozen=True)
class Reviews:
    """Sentences of film reviews: those asked for online, with a model's labels, and those of the test with people's."""

    texts: Sequence[str]
    labels: Sequence[str]
    vectors: Matrix

    def rows(self, count: int) -> list[Labelled]:
        """The first, as a learner gets them."""
        triples = zip(self.texts[:count], self.vectors, self.labels, strict=False)
        return [
            Labelled(text, vector, label, at_s=float(n)) for n, (text, vector, label) in enumerate(triples)
        ]


def reviews(data: Path, cache: Path) -> tuple[Reviews, Reviews]:
    """To train on, and to test by. Raises NoData."""
    found = rows(data / FILE)
    vectors = embedded([row["text"] for row in found], cache)

    def of(split: str, label: str) -> Reviews:
        chosen = [n for n, row in enumerate(found) if row["split"] == split]
        return Reviews([found[n]["text"] for n in chosen], [found[n][label] for n in chosen], vectors[chosen])

    return of("online", "llm_label"), of("test", "gold")


def accuracy(student: Student, test: Reviews) -> float:
    """Share of the test's labels that it gives."""
    said = (
        student.predict(text, vector, 1).label for text, vector in zip(test.texts, test.vectors, strict=True)
    )
    return statistics.fmean(label == right for label, right in zip(said, test.labels, strict=True))


def quality(online: Reviews, test: Reviews, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """A row per number of labels."""
    found = []
    before: bytes | None = None
    for size in sizes:
        baseline = make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(C=5.0, max_iter=1000)
        )
        baseline.fit(online.texts[:size], online.labels[:size])
        began_s = time.process_time()
        trained = train(online.rows(size), seed=0)
        trained_s = time.process_time()
        cold = train(online.rows(size), seed=0, kinds=("mlp",))
        cold_s = time.process_time()
        warm = train(online.rows(size), seed=0, kinds=("mlp",), warm=before)
        warm_s = time.process_time()
        before = warm.data
        figures = trained.metrics
        found.append(
            {
                "labels": size,
                "tfidf": float(baseline.score(test.texts, test.labels)),
                "student": accuracy(Student.open(trained.data), test),
                "kind": figures["kind"],
                "held_out": figures["accuracy"],
                "calibration_error": figures["calibration_error"],
                "mlp": accuracy(Student.open(cold.data), test),
                "mlp_warm": accuracy(Student.open(warm.data), test),
                "cpu_s": trained_s - began_s,
                "mlp_cpu_s": cold_s - trained_s,
                "mlp_warm_cpu_s": warm_s - cold_s,
                "kib": len(trained.data) / 1024,
            }
        )
        print(
            f"{size} labels: student {found[-1]['student']:.3f}, TF-IDF {found[-1]['tfidf']:.3f}", flush=True
        )
    return found


def cost(data: bytes, test: Reviews) -> dict[str, float]:
    """CPU per request, in milliseconds: medians over rounds; and requests per second of one core."""
    student, engine, loop = Student.open(data), StudentEngine(), asyncio.new_event_loop()
    calm_collector()

    def chat(text: str) -> ChatRequest:
        body = {
            "model": "m",
            "messages": [{"role": "system", "content": "Which?"}, {"role": "user", "content": text}],
        }
        return ChatRequest(
            json.dumps(body).encode(), body, "m", body["messages"], stream=False, include_usage=False
        )

    asked = [(chat(text), text, vector) for text, vector in zip(test.texts, test.vectors, strict=True)][
        :REQUESTS
    ]

    async def answer_all() -> None:
        for request, text, vector in asked:
            prediction = student.predict(text, vector, 1)
            sent = EngineRequest("POST", "/", CIMultiDict(), request.body, request, prediction=prediction)
            async with engine.stream(sent) as reply:
                async for _ in reply.chunks:
                    pass

    predicting, answering = [], []
    for _ in range(ROUNDS):
        began_s = time.process_time()
        for _, text, vector in asked:
            student.predict(text, vector, 1)
        predicted_s = time.process_time()
        loop.run_until_complete(answer_all())
        answering.append((time.process_time() - predicted_s) / len(asked) * 1000)
        predicting.append((predicted_s - began_s) / len(asked) * 1000)
    loop.close()
    whole = statistics.median(answering)
    return {
        "predict_cpu_ms": statistics.median(predicting),
        "predict_and_answer_cpu_ms": whole,
        "fastest_round_ms": min(answering),
        "per_second_of_a_core": 1000 / whole,
    }


def main() -> None:
    parser = options(__doc__, data=True, cache=True)
    parser.add_argument("--quick", action="store_true", help="the smallest size only")
    chosen = parser.parse_args()
    try:
        online, test = reviews(chosen.data, chosen.cache)
    except NoData as reason:
        print(reason)
        return
    found = quality(online, test, SIZES[:1] if chosen.quick else SIZES)
    shown = [[f"{v:.3f}" if isinstance(v, float) else v for v in row.values()] for row in found]
    print(markdown(list(found[0]), shown))
    costs = {
        "of two labels": cost(train(online.rows(1000), seed=0, kinds=("logistic",)).data, test),
        "of two labels, network": cost(train(online.rows(1000), seed=0, kinds=("mlp",)).data, test),
    }
    for name, figures in costs.items():
        print(name, {key: round(value, 3) for key, value in figures.items()})
    write({"quality": found, "cost": costs}, chosen.json)


if __name__ == "__main__":
    main()
