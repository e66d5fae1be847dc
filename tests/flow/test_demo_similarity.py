"""That the simulated world is hard where it should be: similarity tells a paraphrase from a look-alike only so often."""

import numpy as np
import pytest

from router.digest import question
from router.embedding.embedder import Embedder
from router.embedding.model import users_models
from simulation.stream import Stream, Traffic
from simulation.world import World

PLAIN = Traffic(exact_repeat=0, one_off=0, small_talk=0, follow_up=0, compound=0, look_alike=0.3)


@pytest.fixture(scope="module")
def pairs():
    asks = list(Stream(World(), 900, traffic=PLAIN))
    asks = list({question(a.messages): a for a in asks}.values())
    embedder = Embedder.open("package", users_models())
    try:
        vectors = np.stack([embedder.embed_blocking(question(a.messages)) for a in asks])
    finally:
        embedder.close()
    similarity = vectors @ vectors.T
    same, near_name = [], []
    for i, one in enumerate(asks):
        for j, two in enumerate(asks[:i]):
            f, g = one.facts[0], two.facts[0]
            if f is g:
                same.append(similarity[i, j])
            elif f.relation is g.relation and (f.kind, f.family) == (g.kind, g.family):
                near_name.append(similarity[i, j])
    return np.array(same), np.array(near_name)


@pytest.mark.slow
def test_paraphrases_are_as_alike_as_peoples_are(pairs):
    same, _ = pairs
    # Human duplicates on Quora under the same model: 93 % and 76 %.
    assert np.mean(same >= 0.7) == pytest.approx(0.93, abs=0.07)
    assert np.mean(same >= 0.8) == pytest.approx(0.76, abs=0.1)


def test_questions_about_a_near_identical_name_are_often_as_alike_as_paraphrases(pairs):
    same, near_name = pairs
    assert len(near_name) > 100
    assert np.mean(near_name >= 0.8) > 0.2
    assert np.mean(near_name >= np.percentile(same, 25)) > 0.2
