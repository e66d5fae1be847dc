"""Projects embeddings onto a plane for people to look at: t-SNE over principal components, which keeps neighbours together.

van der Maaten & Hinton 2008, "Visualizing data using t-SNE". Distances between far groups, and the size of a group, mean
nothing on such a map.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DRAWN = 3_000
"""Of more vectors a random sample of this size is projected; the others are placed among their nearest in the sample."""
_COMPONENTS = 30
_FEWEST = 10
_NEAREST = 3
_AT_ONCE = 4_096


def flat_map(vectors: npt.NDArray[np.float32], *, seed: int = 0, drawn: int = DRAWN) -> Floats:
    """Positions [n, 2], centred, between -1 and 1. Takes seconds for a few thousand unit vectors [n, dimensions].

    The same vectors and seed give the same map on one machine.
    """
    n = len(vectors)
    if n < _FEWEST:
        return _few(n)
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    chosen = np.sort(np.random.default_rng(seed).permutation(n)[:drawn])
    sample = vectors[chosen].astype(np.float64)
    components = min(_COMPONENTS, sample.shape[1], len(sample) - 1)
    reduced = PCA(components, svd_solver="full").fit_transform(sample)
    perplexity = min(30.0, (len(sample) - 1) / 3)
    tsne = TSNE(2, perplexity=perplexity, init="pca", random_state=seed, n_jobs=1)
    placed: Floats = np.asarray(tsne.fit_transform(reduced), dtype=np.float64)
    places = placed if len(chosen) == n else _among(vectors, chosen, placed)
    places -= places.mean(axis=0)
    most = float(np.abs(places).max())
    if most > 0:
        places /= most
    return places


def _among(vectors: npt.NDArray[np.float32], chosen: npt.NDArray[np.int64], placed: Floats) -> Floats:
    """Positions of all vectors: the sample's own, and for the others the mean of their nearest in the sample."""
    places = np.empty((len(vectors), 2))
    sample = vectors[chosen]
    for start in range(0, len(vectors), _AT_ONCE):
        likeness = vectors[start : start + _AT_ONCE] @ sample.T
        near = np.argpartition(-likeness, _NEAREST, axis=1)[:, :_NEAREST]
        places[start : start + _AT_ONCE] = placed[near].mean(axis=1)
    places[chosen] = placed
    return places


def _few(n: int) -> Floats:
    """Positions on a circle, for too few vectors to have a shape."""
    angles = 2 * np.pi * np.arange(n) / max(1, n)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)
