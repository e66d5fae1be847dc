"""The house's embedder as a component, with the real weights."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.components.component import ComponentError
from engines.components.registry import ComponentRegistry
from gateway.components.local import LocalEmbedder
from router.embedding import model as embedding_model
from router.embedding.embedder import Embedder
from router.embedding.model import EmbeddingModelMissing
from tests.engines.components.asking import limits, spec, work
from tests.flow.line import MODELS

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec(embedding_model.PACKAGE) is None, reason="the weights package is not installed"
)


@pytest.fixture(scope="module")
def embedder() -> Iterator[Embedder]:
    embedder = Embedder.open("package", MODELS, deadline_ms=60_000)
    yield embedder
    embedder.close()


def registry(embedder: Embedder, places: int = 4) -> ComponentRegistry:
    made = spec("local", limits=limits(max_in_flight=places))
    return ComponentRegistry([LocalEmbedder("c", lambda: embedder).member(made)])


async def test_its_vectors_are_those_of_requests(embedder: Embedder) -> None:
    components = registry(embedder)
    texts = ["What is the capital of France?", "Which city is France's capital?", "Why is the sky blue?"]
    rows = await components.embed("c", texts, work())
    assert rows.shape == (3, 384) and rows[0] @ rows[1] > rows[0] @ rows[2] + 0.3
    assert (rows[0] == await embedder.embed(texts[0])).all()
    assert components.identity("c") == f"local {embedder.version}"
    assert components.effective_batch("c") == 1
    await components.aclose()


async def test_a_reranker_by_vectors_and_words(embedder: Embedder) -> None:
    components = registry(embedder)
    texts = ["Bread needs flour.", "The museum in Lund opens at nine.", "The gallery opens in the morning."]
    question = "When does the museum in Lund open?"
    scores = await components.rerank("c", question, texts, work())
    assert scores[1] > scores[2] > scores[0]
    # Of each text alone: cutting the list changes nothing.
    assert scores[2:] == await components.rerank("c", question, texts[2:], work())
    await components.aclose()


async def test_what_a_document_brings_does_not_push_out_what_requests_repeat(tmp_path: Path) -> None:
    small = Embedder.open("package", MODELS, deadline_ms=60_000, cache_entries=2)
    components = registry(small)
    kept = await small.embed("asked often")
    await components.embed("c", [f"chunk {n}" for n in range(10)], work())
    assert await small.embed("asked often") is kept
    small.close()
    with pytest.raises(ComponentError, match="did not embed"):
        await components.embed("c", ["late"], work())
    await components.aclose()


async def test_a_request_goes_before_what_is_left_of_a_document(embedder: Embedder) -> None:
    """The thread is held, so that both wait: the request's text is embedded before any of the document's."""
    begun, go, order = threading.Event(), threading.Event(), []
    held = embedder.session.submit(lambda _: (begun.set(), go.wait(60)))
    assert begun.wait(60)
    components = registry(embedder)

    async def document() -> None:
        await components.embed("c", ["one of a document", "two of a document"], work())
        order.append("document")

    async def request() -> None:
        await embedder.embed("a question that was never asked before")
        order.append("request")

    reading = asyncio.create_task(document())
    await asyncio.sleep(0.05)
    asking = asyncio.create_task(request())
    await asyncio.sleep(0.05)
    go.set()
    await asyncio.gather(reading, asking)
    assert order == ["request", "document"] and held.result(60)
    await components.aclose()


async def test_tokens_are_those_of_its_tokenizer(embedder: Embedder) -> None:
    components = registry(embedder)
    text = "An understudy learns 🙂 \ud800 the part" + " " + "x" * 500
    found = components.offsets("c", text)
    words = [text[begin:end] for begin, end in found]
    assert "".join(words) == text.replace(" ", "") and {"An", "under", "learns", "🙂", "\ud800"} <= set(words)
    assert found[-1][1] == len(text) and max(end - begin for begin, end in found) < 50
    await components.aclose()


async def test_weights_that_are_missing_say_what_to_do() -> None:
    def missing() -> Embedder:
        raise EmbeddingModelMissing("install them")

    components = ComponentRegistry([LocalEmbedder("c", missing).member(spec("local"))])
    with pytest.raises(ComponentError, match="cannot be opened: install them"):
        await components.embed("c", ["a"], work())
    await components.aclose()
