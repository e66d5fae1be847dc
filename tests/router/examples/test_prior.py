"""What is assumed before anything was learnt: more overlap, nearness or quality never counts against an example."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.embedding.onnx_session import OnnxSession
from router.examples.features import NAMES, PLACE
from router.examples.prior import ALONE, WEIGHTS, prior_model

RISING = (
    "similarity",
    "request_covered",
    "example_covered",
    "request_rare_covered",
    "example_rare_covered",
    "quality",
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnnxSession]:
    path: Path = tmp_path_factory.mktemp("prior") / "prior.onnx"
    path.write_bytes(prior_model())
    session = OnnxSession(path, name="prior")
    yield session
    session.close()


def qualities(session: OnnxSession, scalars: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    feeds = {"scalars": scalars.astype(np.float32)}
    with_one, alone = session.submit(lambda infer: infer(feeds)).result()
    return with_one, alone


@given(
    st.lists(st.floats(0, 1, width=32), min_size=len(NAMES), max_size=len(NAMES)),
    st.sampled_from(RISING),
    st.floats(0, 1, width=32),
)
def test_more_overlap_similarity_or_quality_is_never_worse(
    session: OnnxSession, base: list[float], name: str, higher: float
) -> None:
    low, high = np.array(base), np.array(base)
    low[PLACE[name]], high[PLACE[name]] = sorted((base[PLACE[name]], higher))
    with_one, _ = qualities(session, np.stack([low, high]))
    assert with_one[1] >= with_one[0]


def test_the_same_question_is_expected_to_help_and_an_unrelated_one_is_not(session: OnnxSession) -> None:
    same, unrelated = np.zeros(len(NAMES)), np.zeros(len(NAMES))
    for name in RISING:
        same[PLACE[name]] = 1.0
    same[PLACE["quality"]] = unrelated[PLACE["quality"]] = 0.5
    unrelated[PLACE["similarity"]] = 0.3
    (good, bad), alone = qualities(session, np.stack([same, unrelated]))
    assert good > alone[0] + 0.3
    assert bad < alone[0]
    assert alone[0] == np.float32(ALONE)


def test_it_weighs_scalars_that_exist_and_is_the_same_bytes_every_time() -> None:
    assert set(WEIGHTS) <= set(NAMES)
    assert prior_model() == prior_model()
