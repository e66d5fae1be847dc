"""The network in torch is the formula that serves: set quality, batches, and the same seed again."""

from __future__ import annotations

import numpy as np
import pytest

from router.examples.set_quality import set_quality
from tests.learning.training.scorer.scorer_world import outcomes

pytestmark = pytest.mark.train


def test_the_quality_of_sets_is_the_one_that_examples_are_chosen_by() -> None:
    import torch

    from learning.training.scorer.network import set_quality_of

    generator = np.random.default_rng(1)
    counts = [0, 1, 2, 5, 8]
    alone = np.array([0.3, 0.0, 1.0, 0.7, 0.5])
    with_one = [generator.random(n) for n in counts]
    found = set_quality_of(
        torch.tensor(alone),
        torch.tensor(np.concatenate(with_one)),
        torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts)),
    )
    expected = [float(set_quality(a, w)) for a, w in zip(alone, with_one, strict=True)]
    assert found.numpy() == pytest.approx(expected, abs=1e-3)


def test_some_rows_of_a_batch_keep_their_own_examples() -> None:
    import torch

    from learning.training.scorer.network import Network, batch_of

    rows = outcomes(12)
    batch = batch_of(rows)
    network = Network(batch, 0)
    which = torch.tensor([7, 2, 11])
    alone, with_one = network.qualities(batch.rows(which))
    some = batch_of([rows[i] for i in which.tolist()])
    alone_, with_one_ = network.qualities(some)
    assert torch.allclose(alone, alone_)
    # Examples stand in the batch's order, each with its owner.
    for place in range(3):
        mine = with_one[batch.rows(which).owner == place]
        assert torch.allclose(mine, with_one_[some.owner == place])


def test_the_same_seed_draws_the_same_weights() -> None:
    import torch

    from learning.training.scorer.network import Network, batch_of

    batch = batch_of(outcomes(12))
    one, two, other = (Network(batch, seed) for seed in (3, 3, 4))
    assert torch.equal(one.weights["hidden_scalars"], two.weights["hidden_scalars"])
    assert not torch.equal(one.weights["hidden_scalars"], other.weights["hidden_scalars"])
