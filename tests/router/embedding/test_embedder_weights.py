"""The embedder with the real weights: what means the same is near, and the process stays small."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from router.embedding import model as embedding_model
from router.embedding.embedder import Embedder
from router.embedding.minilm_onnx import read_graph
from router.embedding.model import prepare

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec(embedding_model.PACKAGE) is None, reason="the weights package is not installed"
)
PATIENT_MS = 60_000
"""A deadline no machine misses, for tests that are about something else."""


@pytest.fixture(scope="module")
def real_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def real(real_cache: Path) -> Iterator[Embedder]:
    embedder = Embedder.open("package", real_cache, deadline_ms=PATIENT_MS)
    yield embedder
    embedder.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "close", "unrelated"),
    [
        ("How do I reset my password?", "I forgot my password, how can I change it?", "How do I bake bread?"),
        ("What is the capital of France?", "Which city is France's capital?", "Why is the sky blue?"),
        ("Sort a list in Python", "python: order the elements of an array", "Plan a trip to Japan"),
        ("My card was charged twice", "I see a duplicate payment", "The museum opens at nine"),
    ],
)
async def test_what_means_the_same_is_nearer_than_what_does_not(
    real: Embedder, text: str, close: str, unrelated: str
) -> None:
    query, near, far = [await real.embed(each) for each in (text, close, unrelated)]
    assert query @ near > query @ far + 0.3


async def test_int8_keeps_the_neighbours_f32_gives(real: Embedder, real_cache: Path, tmp_path: Path) -> None:
    onnx.save(read_graph(embedding_model.locate("package")), tmp_path / "f32.onnx")
    model = replace(prepare("package", real_cache), model=tmp_path / "f32.onnx")
    reference = Embedder(model, deadline_ms=PATIENT_MS)
    try:
        texts = [
            f"{verb} the {noun}" for verb in ("paint", "sell", "repair") for noun in ("house", "car", "boat")
        ]
        served = np.stack([await real.embed(text) for text in texts])
        exact = np.stack([await reference.embed(text) for text in texts])
    finally:
        reference.close()
    assert (served * exact).sum(1).min() > 0.95
    assert np.abs(served @ served.T - exact @ exact.T).mean() < 0.03


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_a_process_with_the_embedder_stays_under_250_mib(real: Embedder, real_cache: Path) -> None:
    script = """
import asyncio, os, sys
from pathlib import Path
from router.embedding.embedder import Embedder
async def main():
    embedder = Embedder.open("package", Path(sys.argv[1]), deadline_ms=60_000)
    for n in range(8):
        await embedder.embed(f"text number {n} " * 40 * (n % 4 + 1))
    print(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20)
    embedder.close()
asyncio.run(main())
"""
    result = subprocess.run(
        [sys.executable, "-c", script, str(real_cache)], capture_output=True, text=True, check=True
    )
    assert float(result.stdout) < 250


async def test_a_text_that_was_broken_off_gets_the_vector_it_would_have_had(real: Embedder) -> None:
    document = " ".join(f"paragraph {n} of a document that can wait" for n in range(40))
    undisturbed = await real.embed_later(document)

    async def requests() -> None:
        for n in range(10):
            await real.embed(f"a question that nobody asked before, number {n}")
            await asyncio.sleep(0.001)

    for _ in range(5):
        vector, _ = await asyncio.gather(real.embed_later(document), requests())
        assert np.array_equal(vector, undisturbed)
