"""An encoder's last layers learn a task's labels, and answer in int8 as they were trained to; without torch, none is."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from structlog.testing import capture_logs

from learning.tasks.encoder import NO_TORCH, EncoderTrainer, NoEncoder
from learning.tasks.follower import StudentFollower
from learning.tasks.network import LastLayers, last_layers
from learning.tasks.trainer import Rhythm, StudentLearner, StudentPace
from learning.tasks.training import Kind, Labelled, train
from router.embedding import model as embedding_model
from router.embedding.embedder import Embedder
from router.embedding.minilm_onnx import read_shape
from router.embedding.trunk import TUNED, Trunk
from router.tasks.student import Student, StudentBroken
from router.tasks.task import Task
from store import Store
from store.records import TaskAnswer
from tests.learning.tasks.customers import labelled
from tests.router.embedding.tiny_bert import write_tiny_bert


class Untuned(EncoderTrainer):
    """Leaves the layers as they are, and needs no torch: a layer of labels that says the same of every text."""

    def tuned(self, *given: object) -> LastLayers:
        """See EncoderTrainer."""
        labels = given[2].shape[1]  # type: ignore[attr-defined]
        shape = read_shape(self.folder)
        weights, first = load_file(self.folder / "model.safetensors"), shape.layers - TUNED
        return last_layers(weights, shape, first, np.zeros((shape.hidden, labels)), np.zeros(labels))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="module")
def untuned(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> EncoderTrainer:
    made = embedding_model.prepare(f"folder:{folder}", tmp_path_factory.mktemp("models"))
    return Untuned(folder, Trunk(made.model, made.tokenizer), made.version)


@pytest.fixture(scope="module")
def embedder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedder]:
    opened = Embedder.open(
        f"folder:{folder}", tmp_path_factory.mktemp("models"), deadline_ms=60_000, max_tokens=64
    )
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture(scope="module")
def rows(embedder: Embedder) -> list[Labelled]:
    """More than an encoder needs, in turn."""
    found = [*labelled(), *(replace(row, input=f"{row.input} Thanks!") for row in labelled())]
    return [
        replace(row, vector=embedder.embed_blocking(row.input), at_s=float(n)) for n, row in enumerate(found)
    ]


def test_first_and_last_layers_are_the_encoder(
    folder: Path, untuned: EncoderTrainer, embedder: Embedder
) -> None:
    shape = read_shape(folder)
    same = last_layers(
        load_file(folder / "model.safetensors"),
        shape,
        shape.layers - TUNED,
        np.eye(shape.hidden),
        np.zeros(shape.hidden),
    )
    for text in ("Where is it?", "my money back " * 300, "half a pair: \ud83d"):
        (encoded,) = same.logits([untuned.trunk.states(text)])
        if len(text) < 100:
            assert encoded @ embedder.embed_blocking(text) > 0.98


def test_a_student_with_last_layers_answers_with_the_first_ones_only(
    rows: list[Labelled], untuned: EncoderTrainer
) -> None:
    data = train(rows, seed=0, kinds=("encoder",), encoder=untuned, embedding_version="v").data
    with pytest.raises(StudentBroken, match="last layers of an encoder"):
        Student.open(data)
    student = Student.open(data, embedding_version="v", trunk=lambda: untuned.trunk)
    assert student.declared.kind == "encoder" and student.predict_s > 0
    # What stands beside the encoder decides where that says nothing.
    beside = Student.open(train(rows, seed=0, kinds=("logistic", "centroid")).data)
    for row in rows[::37]:
        assert (
            student.predict(row.input, row.vector, 1).label == beside.predict(row.input, row.vector, 1).label
        )


def test_an_encoder_that_adds_nothing_is_not_served(rows: list[Labelled], untuned: EncoderTrainer) -> None:
    metrics = train(rows, seed=0, kinds=("logistic", "encoder"), encoder=untuned).metrics
    assert metrics["kind"] == "logistic" and "encoder/1" in metrics["tried"]


def test_too_few_labels_are_not_worth_it(rows: list[Labelled], untuned: EncoderTrainer) -> None:
    metrics = train(rows[:200], seed=0, kinds=("logistic", "encoder"), encoder=untuned).metrics
    assert "encoder/1" not in metrics["tried"]


def test_without_torch_it_says_which_extra_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoEncoder, match=r"pip install 'understudy-gateway\[train\]'"):
        EncoderTrainer.open("package", tmp_path)


@pytest.mark.train
def test_an_encoder_learns_what_its_embedding_does_not_tell(
    folder: Path, rows: list[Labelled], untuned: EncoderTrainer
) -> None:
    trainer = EncoderTrainer(folder, untuned.trunk, untuned.version)
    states = [trainer.trunk.states(row.input) for row in rows]
    vectors = np.stack([row.vector for row in rows]).astype(np.float32)
    labels = sorted({row.label for row in rows})
    hard = np.array([labels.index(row.label) for row in rows])
    targets, weights = np.eye(len(labels))[hard], np.ones(len(rows))

    tuned = trainer.tuned(states[:300], vectors[:300], targets[:300], weights[:300], 3)
    assert (tuned.logits(states[300:]).argmax(axis=1) == hard[300:]).mean() > 0.9
    again = trainer.tuned(states[:300], vectors[:300], targets[:300], weights[:300], 3)
    assert again.model == tuned.model

    centroids = np.stack([vectors[:300][hard[:300] == n].mean(axis=0) for n in range(len(labels))])
    near = (vectors[300:] @ centroids.T).argmax(axis=1) == hard[300:]
    assert near.mean() < 0.9


TASK = Task("intent", "acme", "gpt-4o")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    try:
        yield opened
    finally:
        opened.close()


def told(store: Store, rows: Sequence[Labelled], version: str) -> None:
    """The teacher labels these."""
    for row in rows:
        answer = TaskAnswer(
            TASK.tenant, TASK.slot, f"r{row.at_s}", row.at_s, "teacher", row.input, row.label, answer=row.label,
            vector=row.vector, embedding_version=version,
        )  # fmt: skip
        written = store.tasks.answers.record(answer)
    written.result(30)


def learner(store: Store, encoder: Callable[[], EncoderTrainer], kinds: tuple[Kind, ...]) -> StudentLearner:
    pace, rhythm = StudentPace(kinds=kinds), Rhythm(every=20)
    return StudentLearner(store.tasks.answers, store.artifacts, lambda *of: rhythm, pace, encoder=encoder)


def test_an_encoder_in_use_is_tuned_anew_after_a_quarter_more_labels_and_not_replaced_before(
    store: Store, rows: list[Labelled], untuned: EncoderTrainer
) -> None:
    told(store, rows[:300], f"{untuned.version}/64t")
    made = learner(store, lambda: untuned, ("encoder",))
    (first,) = made.step()
    assert (first.metrics["kind"], first.metrics["encoder_at"]) == ("encoder", 300)
    told(store, rows[300:360], f"{untuned.version}/64t")
    assert made.step() == [] == learner(store, lambda: untuned, ("encoder",)).step()
    told(store, [replace(row, at_s=row.at_s + 1000.0) for row in rows[:15]], f"{untuned.version}/64t")
    (second,) = made.step()
    assert second.metrics["encoder_at"] == 375 and "newest_accuracy_before" in second.metrics

    follower = StudentFollower(store.artifacts, embedding_version=f"{untuned.version}/64t")
    follower.start()
    try:
        assert follower.ready(TASK.tenant, TASK.slot) and not follower.of(TASK)
    finally:
        follower.stop()
    follower = StudentFollower(
        store.artifacts, embedding_version=f"{untuned.version}/64t", trunk=lambda: untuned.trunk
    )
    follower.start()
    try:
        assert follower.ready(TASK.tenant, TASK.slot)
        assert [version for version, _ in follower.of(TASK)] == [second.id, first.id]
    finally:
        follower.stop()


def test_without_torch_students_are_trained_as_before_and_the_log_says_why(
    monkeypatch: pytest.MonkeyPatch, store: Store, rows: list[Labelled], tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    told(store, rows[:300], "v")
    made = learner(store, lambda: EncoderTrainer.open("package", tmp_path), ("logistic", "encoder"))
    with capture_logs() as logged:
        (record,) = made.step()
        told(store, rows[300:340], "v")
        made.step()
    assert record.metrics["kind"] == "logistic"
    assert [e["reason"] for e in logged if e["event"] == "encoders_not_tuned"] == [NO_TORCH]
