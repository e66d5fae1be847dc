"""What a fine-tuned encoder adds to a student: accuracy on what it was not trained on, after so many labels, beside what is
trained without it.

Each number is of the tests of all random splits, with half the width of a 95 % interval: 1.96 standard errors, of a paired
difference where it is one. The layers are tuned once per split, on the four fifths of the labels that the choice does not
hold out; a learner tunes them anew on all.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.recorded import rows
from benchmarks.vectors import embedded
from learning.tasks.encoder import EncoderTrainer
from learning.tasks.network import LastLayers
from learning.tasks.training import Kind, Labelled, train
from router.tasks.student import Student

SIZES = (500, 1000, 2500)
TESTED = 500
FILES = {
    "banking77, GPT-4's labels": ("caching_banking77_gpt4.jsonl.gz", "llm_label", 500),
    "banking77, people's labels": ("sim_banking77.jsonl.gz", "intent", 2500),
    "RT-Polarity, GPT-3.5's labels": ("caching_rtpolarity_llm.jsonl.gz", "llm_label", 2500),
    "ISEAR, people's labels": ("labels_isear_gold.jsonl.gz", "gold", 2500),
}
"""File, field with the label, and the most labels that leave a test."""
_COUNTS = ("without", "encoder", "encoder_only", "without_only", "served")
_WITHOUT: tuple[Kind, ...] = ("logistic", "centroid")


@dataclass(frozen=True)
class Once(EncoderTrainer):
    """Tunes once, whatever is asked: for the choice and for the encoder alone the same layers are measured."""

    made: list[LastLayers] = field(default_factory=list)

    def tuned(self, *given: Any) -> LastLayers:
        """See EncoderTrainer."""
        if not self.made:
            self.made.append(super().tuned(*given))
        return self.made[0]


def splits(
    data: Path, cache: Path, names: Sequence[str], count: int, sizes: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """A row per split, file and number of labels: the first split of every file first. Raises NoData."""
    opened = EncoderTrainer.open("package", cache / "models")
    files = {name: _read(data / FILES[name][0], FILES[name][1], cache, count) for name in names}
    for split in range(count):
        for name, labelled in files.items():
            drawn = np.random.default_rng(split).permutation(len(labelled))
            for size in [size for size in sizes if size <= FILES[name][2]]:
                past = [labelled[place] for place in np.sort(drawn[:size])]
                test = [labelled[place] for place in drawn[size : size + TESTED]]
                encoder = Once(opened.folder, opened.trunk, opened.version, again=False)
                yield {"file": name, "labels": size, "split": split, **_measured(past, test, encoder)}


def _read(path: Path, label: str, cache: Path, count: int) -> list[Labelled]:
    # RT-Polarity's own test has no labels of a model.
    found = [row for row in rows(path) if row[label] is not None]
    # Only as many as some split uses are embedded.
    used = [
        np.random.default_rng(split).permutation(len(found))[: max(SIZES) + TESTED] for split in range(count)
    ]
    texts = {int(place): found[place]["text"] for place in np.unique(np.concatenate(used))}
    vectors = dict(zip(texts, embedded(list(texts.values()), cache), strict=True))
    nothing = np.zeros(0, np.float32)
    return [
        Labelled(row["text"], vectors.get(n, nothing), row[label], at_s=float(n))
        for n, row in enumerate(found)
    ]


def _measured(past: list[Labelled], test: list[Labelled], encoder: Once) -> dict[str, Any]:
    began_s = time.process_time()
    without = train(past, seed=0, kinds=_WITHOUT)
    without_s = time.process_time()
    chosen = train(past, seed=0, kinds=(*_WITHOUT, "encoder"), encoder=encoder)
    chosen_s = time.process_time()
    is_chosen = chosen.metrics["kind"] == "encoder"
    alone = chosen if is_chosen else train(past, seed=0, kinds=("encoder",), encoder=encoder)
    linear, linear_ms = _right(Student.open(without.data), test)
    tuned, tuned_ms = _right(Student.open(alone.data, trunk=lambda: encoder.trunk), test)
    return {
        "tested": len(test),
        "without": int(linear.sum()),
        "encoder": int(tuned.sum()),
        "encoder_only": int((tuned & ~linear).sum()),
        "without_only": int((linear & ~tuned).sum()),
        "served": int((tuned if is_chosen else linear).sum()),
        "kind_without": without.metrics["kind"],
        "encoder_chosen": is_chosen,
        "training_cpu_s": without_s - began_s,
        "encoder_training_cpu_s": chosen_s - without_s,
        "answer_cpu_ms": linear_ms,
        "encoder_answer_cpu_ms": tuned_ms,
    }


def _right(student: Student, test: list[Labelled]) -> tuple[npt.NDArray[np.bool_], float]:
    """Whether each of the test's labels is what it gives, and the CPU of a prediction in milliseconds."""
    began_s = time.process_time()
    right = [student.predict(row.input, row.vector, 1).label == row.label for row in test]
    return np.array(right), (time.process_time() - began_s) / len(test) * 1000


def table(found: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: per file and number of labels, over the splits that there are."""
    places = dict.fromkeys((row["file"], row["labels"]) for row in found)
    header = ["file", "labels", "splits", "without", "encoder", "encoder - without", "served", "chosen"]
    header += ["training, CPU s", "with encoder", "answer, CPU ms", "with encoder"]
    shown = []
    for name, labels in places:
        here = [row for row in found if (row["file"], row["labels"]) == (name, labels)]
        tested = sum(row["tested"] for row in here)
        right = {key: sum(row[key] for row in here) for key in _COUNTS}
        apart, gained = right["encoder_only"] + right["without_only"], right["encoder"] - right["without"]
        figures = [
            _share(right["without"], right["without"], tested),
            _share(right["encoder"], right["encoder"], tested),
            _share(gained, apart, tested),
            _share(right["served"], right["served"], tested),
        ]
        chosen = f"{sum(row['encoder_chosen'] for row in here)} of {len(here)}"
        costs = [
            f"{statistics.fmean(row[key] for row in here):.2f}"
            for key in (
                "training_cpu_s", "encoder_training_cpu_s", "answer_cpu_ms", "encoder_answer_cpu_ms",
            )
        ]  # fmt: skip
        shown.append([name, str(labels), str(len(here)), *figures, chosen, *costs])
    return header, shown


def _share(sum_: int, of_squares: int, tested: int) -> str:
    """The mean of values whose sum and sum of squares these are, with half the width of its 95 % interval."""
    mean = sum_ / tested
    return f"{mean:.3f} ± {1.96 * ((of_squares / tested - mean**2) / tested) ** 0.5:.3f}"
