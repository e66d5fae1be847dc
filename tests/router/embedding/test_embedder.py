"""Text to vector: once per text, in time or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from structlog.testing import capture_logs

from router.embedding.embedder import Embedder, EmbedderBroken, EmbedderLate, EmbeddingModelMissing
from router.embedding.guess import LEARNT_FROM
from router.embedding.minilm_onnx import read_graph
from router.embedding.model import EmbeddingModel, prepare
from router.embedding.onnx_session import NoGPU, import_onnxruntime, require_gpu
from tests.router.embedding.tiny_bert import HIDDEN, POSITIONS, TOKENS, tiny_weights, write_tiny_bert

PATIENT_MS = 60_000
"""A deadline no machine misses, for tests that are about something else."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> EmbeddingModel:
    folder = tmp_path_factory.mktemp("tiny")
    return prepare(f"folder:{write_tiny_bert(folder / 'weights')}", folder / "cache")


@pytest.fixture
def embedder(tiny: EmbeddingModel) -> Iterator[Embedder]:
    embedder = Embedder(tiny, deadline_ms=PATIENT_MS, max_tokens=64, max_characters=40)
    yield embedder
    embedder.close()


class Gate:
    """Keeps the embedder's thread busy from `with` until `open` or the end of the block."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder, self._begun, self._open = embedder, threading.Event(), threading.Event()

    def __enter__(self) -> Gate:
        self._future = self._embedder.session.submit(self._stand)
        assert self._begun.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self.open()

    def open(self) -> None:
        self._open.set()
        self._future.result(30)

    def _stand(self, _: object) -> None:
        self._begun.set()
        assert self._open.wait(30)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("onnx-embedder")]


async def test_a_vector_is_float32_of_unit_length_and_cannot_be_changed(embedder: Embedder) -> None:
    vector = await embedder.embed("hello there")
    assert vector.dtype == np.float32
    assert vector.shape == (embedder.dimensions,) == (HIDDEN,)
    assert vector @ vector == pytest.approx(1, abs=1e-5)
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 1


@pytest.mark.parametrize(
    "text", ["", " \n\t", "\x00", "half a pair \ud83d", "日本語テキスト", "🙂" * 100, "x" * 100_000]
)
async def test_any_text_has_a_vector(embedder: Embedder, text: str) -> None:
    vector = await embedder.embed(text)
    assert np.isfinite(vector).all()
    assert vector @ vector == pytest.approx(1, abs=1e-5)


async def test_texts_alike_but_for_the_middle_that_is_cut_share_one_vector(embedder: Embedder) -> None:
    head, tail = "a b c d e f g h i j ", " k l m n o p q r s t"
    assert len(head) == 20 and len(tail) == 20
    assert await embedder.embed(head + "one" + tail) is await embedder.embed(head + "another" + tail)
    assert not np.array_equal(
        await embedder.embed(head + tail), await embedder.embed(head + "x y" + tail[:-2])
    )


async def test_of_a_text_with_too_many_tokens_the_first_and_the_last_are_read(tiny: EmbeddingModel) -> None:
    embedder = Embedder(tiny, deadline_ms=PATIENT_MS, max_tokens=16, max_characters=400)
    try:
        head, middle = "a b c d e f g ", "h i j k l m n o p q r s t " * 3
        asked = await embedder.embed(head + middle + "u v w x")
        otherwise = await embedder.embed(head + middle + "u v w y")
        assert not np.array_equal(asked, otherwise)
        assert np.array_equal(await embedder.embed(head + "x " * 40 + middle + "u v w x"), asked)
    finally:
        embedder.close()


async def test_the_tokenizers_own_padding_and_truncation_do_not_reach_the_model(tiny: EmbeddingModel) -> None:
    seen: list[list[int]] = []

    class Watching(Embedder):
        def _infer(self, texts: list[str], infer: Any) -> Any:
            def spy(feeds: Any) -> Any:
                seen.append(feeds["input_ids"][0].tolist())
                return infer(feeds)

            return super()._infer(texts, spy)

    embedder = Watching(tiny, deadline_ms=PATIENT_MS, max_tokens=20)
    try:
        await embedder.embed("a b")
        await embedder.embed("z " * 30)
    finally:
        embedder.close()
    a, b, z = (TOKENS.index(letter) for letter in "abz")
    assert seen[1:] == [[2, a, b, 3], [2, *[z] * 18, 3]]


async def test_a_late_vector_is_given_up_and_the_next_one_is_in_time(tiny: EmbeddingModel) -> None:
    embedder = Embedder(tiny, deadline_ms=20, max_tokens=64)
    try:
        with Gate(embedder):
            with pytest.raises(EmbedderLate, match="within 20 ms"):
                await embedder.embed("too late")
        embedder.deadline_ms = PATIENT_MS
        assert (await embedder.embed("in time")).shape == (HIDDEN,)
    finally:
        embedder.close()


async def test_work_nobody_waits_for_any_more_is_never_done(tiny: EmbeddingModel) -> None:
    computed: list[str] = []

    class Watching(Embedder):
        def _infer(self, texts: list[str], infer: Any) -> Any:
            computed.extend(texts)
            return super()._infer(texts, infer)

    embedder = Watching(tiny, deadline_ms=20, max_tokens=64, queue_limit=6)
    try:
        computed.clear()
        with Gate(embedder):
            for round_ in range(5):
                gone = [embedder.embed(f"gone {round_} {n}") for n in range(5)]
                results = await asyncio.gather(*gone, return_exceptions=True)
                assert {type(result) for result in results} == {EmbedderLate}
            assert embedder.session.pending == 1
        embedder.deadline_ms = PATIENT_MS
        await embedder.embed("wanted")
        assert computed == ["wanted"]
    finally:
        embedder.close()


async def test_an_inference_that_had_begun_is_kept_for_the_next_request(tiny: EmbeddingModel) -> None:
    computed: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Embedder):
        def _infer(self, texts: list[str], infer: Any) -> Any:
            computed.extend(texts)
            if texts == ["slow"]:
                begun.set()
                assert go_on.wait(30)
            return super()._infer(texts, infer)

    embedder = Slow(tiny, deadline_ms=PATIENT_MS, max_tokens=64)
    try:
        asking = asyncio.create_task(embedder.embed("slow"))
        assert await asyncio.to_thread(begun.wait, 10)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        go_on.set()
        await embedder.embed("another")
        kept = await embedder.embed("slow")
        assert kept.shape == (HIDDEN,)
        assert computed.count("slow") == 1
    finally:
        go_on.set()
        embedder.close()


async def test_many_who_ask_for_the_same_text_at_once_share_one_inference(embedder: Embedder) -> None:
    with Gate(embedder) as gate:
        tasks = [asyncio.create_task(embedder.embed("popular")) for _ in range(50)]
        background = asyncio.create_task(asyncio.to_thread(embedder.embed_blocking, "popular"))
        await asyncio.sleep(0)
        impatient = tasks.pop()
        impatient.cancel()
        await asyncio.wait([impatient])
        assert embedder.session.pending == 2
        await asyncio.to_thread(gate.open)
    vectors = [await task for task in [*tasks, background]]
    assert len({id(vector) for vector in vectors}) == 1
    assert await embedder.embed("popular") is vectors[0]


async def test_a_recent_text_is_answered_while_the_thread_is_busy(embedder: Embedder) -> None:
    vector = await embedder.embed("recent")
    with Gate(embedder):
        assert await embedder.embed("recent") is vector
        assert embedder.embed_blocking("recent") is vector


async def test_only_so_many_recent_texts_are_kept(tiny: EmbeddingModel) -> None:
    embedder = Embedder(tiny, deadline_ms=PATIENT_MS, max_tokens=64, cache_entries=2)
    try:
        first = await embedder.embed("one")
        await embedder.embed("two")
        assert await embedder.embed("one") is first
        await embedder.embed("three")
        assert await embedder.embed("one") is first
        two = await embedder.embed("two")
        assert await embedder.embed("three") is not two
    finally:
        embedder.close()


async def test_a_cache_of_no_entries_still_gives_vectors(tiny: EmbeddingModel) -> None:
    embedder = Embedder(tiny, deadline_ms=PATIENT_MS, max_tokens=64, cache_entries=0)
    try:
        assert np.array_equal(await embedder.embed("one"), await embedder.embed("one"))
    finally:
        embedder.close()


async def test_a_full_queue_is_late_at_once_but_background_threads_may_wait(tiny: EmbeddingModel) -> None:
    embedder = Embedder(tiny, deadline_ms=PATIENT_MS, max_tokens=64, queue_limit=2)
    try:
        with Gate(embedder) as gate:
            waiting = asyncio.create_task(embedder.embed("first"))
            await asyncio.sleep(0)
            with pytest.raises(EmbedderLate, match="the limit is 2"):
                await embedder.embed("second")
            background = asyncio.create_task(asyncio.to_thread(embedder.embed_blocking, "third"))
            await asyncio.to_thread(gate.open)
        assert (await waiting).shape == (await background).shape == (HIDDEN,)
    finally:
        embedder.close()


async def test_the_blocking_call_gives_the_very_same_numbers(
    tiny: EmbeddingModel, embedder: Embedder
) -> None:
    other = Embedder(tiny, max_tokens=64, max_characters=40)
    try:
        for text in ("", "one", "one two three"):
            assert np.array_equal(other.embed_blocking(text), await embedder.embed(text))
    finally:
        other.close()


async def test_nothing_is_left_over_after_many_impatient_callers(tiny: EmbeddingModel) -> None:
    embedder = Embedder(tiny, deadline_ms=5, max_tokens=64, queue_limit=16, cache_entries=5)
    generator = np.random.default_rng(0)

    async def caller(text: str, patience_s: float) -> None:
        try:
            async with asyncio.timeout(patience_s):
                await embedder.embed(text)
        except (EmbedderLate, TimeoutError):
            pass

    try:
        for _ in range(5):
            picks = generator.integers(0, 30, 200)
            patience = generator.uniform(0, 0.01, 200)
            await asyncio.gather(*(caller(f"text {n}", s) for n, s in zip(picks, patience, strict=True)))
        await asyncio.to_thread(embedder.embed_blocking, "the last in the queue")
        await asyncio.to_thread(embedder.close)
        assert embedder.session.pending == 0
        assert embedder._in_flight == {}
    finally:
        embedder.close()


@pytest.mark.parametrize(
    ("tensor", "index", "value"),
    [("embeddings.LayerNorm.bias", 0, np.nan), ("encoder.layer.1.output.LayerNorm", ..., 0)],
)
def test_a_model_that_gives_nan_or_zero_is_refused_at_the_start(
    tiny: EmbeddingModel, tmp_path: Path, tensor: str, index: Any, value: float
) -> None:
    weights = tiny_weights()
    for name in [name for name in weights if name.startswith(tensor)]:
        weights[name][index] = value
    onnx.save(read_graph(write_tiny_bert(tmp_path / "broken", weights=weights)), tmp_path / "broken.onnx")
    with pytest.raises(EmbedderBroken, match="squared length"):
        Embedder(replace(tiny, model=tmp_path / "broken.onnx"), max_tokens=64)
    assert threads() == []


async def test_a_useless_vector_is_an_error_and_not_kept(tiny: EmbeddingModel, tmp_path: Path) -> None:
    weights = tiny_weights()
    weights["embeddings.word_embeddings.weight"][TOKENS.index("q")] = np.nan
    onnx.save(read_graph(write_tiny_bert(tmp_path / "broken", weights=weights)), tmp_path / "broken.onnx")
    embedder = Embedder(replace(tiny, model=tmp_path / "broken.onnx"), deadline_ms=PATIENT_MS, max_tokens=64)
    try:
        for _ in range(2):
            with pytest.raises(EmbedderBroken, match="nan"):
                await embedder.embed("q")
        with pytest.raises(EmbedderBroken, match="nan"):
            await asyncio.to_thread(embedder.embed_blocking, "q")
        assert (await embedder.embed("a")).shape == (HIDDEN,)
    finally:
        embedder.close()


def test_the_version_changes_with_what_is_cut(tiny: EmbeddingModel) -> None:
    versions = set()
    for settings in ({"max_tokens": 32}, {"max_tokens": 64}, {"max_tokens": 64, "max_characters": 100}):
        embedder = Embedder(tiny, **settings)
        versions.add(embedder.version)
        embedder.close()
    assert len(versions) == 3


@pytest.mark.parametrize("tokens", [0, 2, 65])
def test_a_token_limit_the_model_cannot_keep_is_refused(tiny: EmbeddingModel, tokens: int) -> None:
    with pytest.raises(ValueError, match=f"max_tokens is {tokens}; .* between 3 and 64"):
        Embedder(tiny, max_tokens=tokens)


async def test_closing_ends_the_thread_and_tells_who_waits(tiny: EmbeddingModel) -> None:
    embedder = Embedder(tiny, deadline_ms=PATIENT_MS, max_tokens=64)
    kept = await embedder.embed("kept")
    assert len(threads()) == 1
    with Gate(embedder):
        waiting = asyncio.create_task(embedder.embed("waiting"))
        blocking = asyncio.create_task(asyncio.to_thread(embedder.embed_blocking, "blocking"))
        while embedder.session.pending < 3:
            await asyncio.sleep(0.001)
        closing = asyncio.create_task(asyncio.to_thread(embedder.close))
        for late in (waiting, blocking):
            with pytest.raises(EmbedderLate, match="closed"):
                await late
    await closing
    assert threads() == []
    with pytest.raises(EmbedderLate, match="closed"):
        await embedder.embed("after")
    assert await embedder.embed("kept") is kept
    embedder.close()


def test_missing_weights_tell_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingModelMissing, match="it must be a folder as the model hub lays it out"):
        Embedder.open(f"folder:{tmp_path}/nowhere", tmp_path)


def test_without_a_gpu_cuda_is_refused_by_name_and_auto_goes_on_and_says_so(tmp_path: Path) -> None:
    source = f"folder:{write_tiny_bert(tmp_path / 'tiny')}"
    if "CUDAExecutionProvider" in import_onnxruntime().get_available_providers():
        pytest.skip("onnxruntime has CUDA here")
    with pytest.raises(EmbeddingModelMissing, match=r"memory\.examples\.device is 'cuda', but .* extra gpu"):
        Embedder.open(source, tmp_path / "cache", device="cuda")
    assert not (tmp_path / "cache").exists(), "nothing is built for a device that is not there"
    with capture_logs() as logs:
        embedder = Embedder.open(source, tmp_path / "cache", max_tokens=POSITIONS, device="auto")
    try:
        assert "int8-pc" in embedder.version
        told = [line["reason"] for line in logs if line["event"] == "embedder_on_cpu"]
        assert len(told) == 1 and "extra gpu" in told[0]
    finally:
        embedder.close()


def test_onnxruntime_with_cuda_and_no_gpu_is_told_apart_from_one_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a build offers CUDA, and then goes on with the CPU without an error; so does this one when asked for it."""
    onnxruntime = import_onnxruntime()
    offered = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: offered)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(NoGPU, match="found no GPU"):
            require_gpu()


def test_the_model_for_a_gpu_is_f32_of_a_version_of_its_own(tmp_path: Path) -> None:
    source = f"folder:{write_tiny_bert(tmp_path / 'tiny')}"
    on_cpu, on_gpu = (prepare(source, tmp_path / "cache", gpu=gpu) for gpu in (False, True))
    assert on_cpu.model != on_gpu.model
    assert ("/int8-pc/" in on_cpu.version, "/f32-batch/" in on_gpu.version) == (True, True)
    # On the CPU, which has all its kernels: what a GPU is to compute.
    both = [Embedder(model, max_tokens=POSITIONS) for model in (on_cpu, on_gpu)]
    try:
        near, exact = (each.embed_blocking("how do i reset my password") for each in both)
        assert float(near @ exact) > 0.9
    finally:
        for each in both:
            each.close()


async def test_texts_that_wait_are_one_inference_where_the_model_takes_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the CPU, with the model that a GPU gets."""
    model = prepare(f"folder:{write_tiny_bert(tmp_path / 'tiny')}", tmp_path / "cache", gpu=True)
    texts = [
        "how do i reset my password",
        "",
        "hello",
        *(f"question {n} " * (1 + n % 7) for n in range(1, 40)),
    ]
    alone, together = (Embedder(model, max_tokens=POSITIONS, deadline_ms=PATIENT_MS) for _ in range(2))
    sizes: list[int] = []
    session = together.session
    infer = session._infer
    try:
        expected = [alone.embed_blocking(text) for text in texts]
        with Gate(together) as gate:
            monkeypatch.setattr(
                session, "_infer", lambda feeds, _=None: sizes.append(len(feeds["input_ids"])) or infer(feeds)
            )
            # The first job was queued with the session's own function.
            asked = asyncio.gather(*(together.embed(text) for text in texts))
            while session.pending <= len(texts):
                await asyncio.sleep(0.01)
            gate.open()
            vectors = await asked
        assert sizes == [32, len(texts) - 32]
        np.testing.assert_allclose(vectors, expected, atol=2e-6)
        # Whoever asks later has it from the cache.
        assert await together.embed(texts[-1]) is vectors[-1]
    finally:
        alone.close()
        together.close()


async def test_one_broken_vector_of_a_batch_concerns_no_other_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = prepare(f"folder:{write_tiny_bert(tmp_path / 'tiny')}", tmp_path / "cache", gpu=True)
    embedder = Embedder(model, max_tokens=POSITIONS, deadline_ms=PATIENT_MS)
    infer = embedder.session._infer

    def with_one_broken(feeds: Any, _: Any = None) -> list[Any]:
        (vectors,) = infer(feeds)
        vectors[1] = np.nan
        return [vectors]

    try:
        monkeypatch.setattr(embedder.session, "_infer", with_one_broken)
        with Gate(embedder) as gate:
            asked = asyncio.gather(*(embedder.embed(t) for t in ("a", "b", "c")), return_exceptions=True)
            while embedder.session.pending < 4:
                await asyncio.sleep(0.01)
            gate.open()
            assert [type(each) for each in await asked] == [np.ndarray, EmbedderBroken, np.ndarray]
    finally:
        embedder.close()


def test_importing_the_embedder_loads_no_model_library() -> None:
    script = (
        "import sys, router.embedding.embedder; "
        "print(*{'onnxruntime', 'onnx', 'tokenizers', 'safetensors', 'huggingface_hub', 'numpy'} & {*sys.modules})"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""


async def test_what_can_wait_finds_recent_texts_and_is_none_itself(embedder: Embedder) -> None:
    recent = await embedder.embed("asked before")
    assert await embedder.embed_later("asked before") is recent
    first, second = await embedder.embed_later("of a document"), await embedder.embed_later("of a document")
    assert first is not second and np.array_equal(first, second)
    assert np.array_equal(await embedder.embed("of a document"), first)


async def test_what_can_wait_may_be_left_and_ends_with_the_embedder(tiny: EmbeddingModel) -> None:
    embedder = Embedder(tiny, deadline_ms=PATIENT_MS, max_tokens=64)
    began, held = threading.Event(), threading.Event()
    busy = embedder.session.submit(lambda _: began.set() or held.wait(60))
    assert await asyncio.to_thread(began.wait, 60)
    left, waits = (asyncio.create_task(embedder.embed_later(f"text {n}")) for n in range(2))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.wait([left])
    closing = threading.Thread(target=embedder.close)
    closing.start()
    with pytest.raises(EmbedderLate, match="closed"):
        await waits
    held.set()
    closing.join(60)
    assert left.cancelled() and busy.result(60)
    with pytest.raises(EmbedderLate):
        await embedder.embed_later("too late")


def test_tokens_are_told_by_their_place_in_the_text(embedder: Embedder) -> None:
    text = "two words"
    found = embedder.offsets(text)
    assert "".join(text[begin:end] for begin, end in found) == "twowords"


def test_a_late_text_is_guessed_from_those_that_were_embedded(tiny: EmbeddingModel) -> None:
    with contextlib.closing(Embedder(tiny, max_tokens=64, cache_entries=0)) as embedder:
        assert embedder.guessed("anything") is None
        words = [token for token in TOKENS if token.isalpha()]
        for number in range(LEARNT_FROM):
            embedder.embed_blocking(" ".join(words[(number * step) % len(words)] for step in (1, 3, 7)))
        text = " ".join(words[:3])
        found = embedder.guessed(text)
        assert found is not None and found.shape == (HIDDEN,)
        assert found @ embedder.embed_blocking(text) > 0.5
