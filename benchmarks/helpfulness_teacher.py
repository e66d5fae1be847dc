"""Is a cross-encoder the better judge of examples, what does it cost, and does the fast scorer learn from it?

    python benchmarks/helpfulness_teacher.py [--requests 1500] [--seed 7] [--worlds 7 11] [--layers 2] [--json FILE]

The stream, the bank, the outcomes and the measure are those of benchmarks/helpfulness.py. On the same outcomes are
trained: the fast scorer; a cross-encoder, which reads the texts; and the fast scorer once more, with the cross-encoder's
opinions of candidates that nobody tried (router.learning.distillation). As a control, the fast scorer is also told the
true expected quality of the very same candidates: what a faultless teacher would have been worth. No scorer but that
control ever sees it.

CPU time is the process's own, all its threads, per call with 20 candidates. Nothing here runs on a GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from router.onnx_session import import_onnxruntime

import_onnxruntime()

from engines.simulated_world import World  # noqa: E402
from router.combiner import Knobs  # noqa: E402
from router.embedder import Embedder  # noqa: E402
from router.embedding_model import locate, prepare  # noqa: E402
from router.learning.scorer_rows import Row  # noqa: E402
from router.learning.scorer_training import trained  # noqa: E402
from router.rarity import Rarity  # noqa: E402
from router.scorer import Scorer  # noqa: E402
from router.scorer_features import Features  # noqa: E402
from router.scorer_prior import prior_model  # noqa: E402

from benchmarks.helpfulness import (  # noqa: E402
    CANDIDATES,
    CLOCK,
    SEED,
    WARM_UP,
    _row,
    collected,
    compared,
    table,
    view,
)
from benchmarks.helpfulness_world import (  # noqa: E402
    SECONDS_APART,
    Bank,
    Played,
    expected_quality,
    is_remembered,
    play,
    remembered,
)
from router.learning.cross_encoder import Teacher, split, trained_cross_encoder  # noqa: E402
from router.learning.cross_encoder_graph import cross_encoder_model  # noqa: E402
from router.learning.cross_encoder_texts import UNKNOWN_QUALITY, TextRow, shown  # noqa: E402
from router.learning.distillation import EACH, WEIGHT, soft_rows  # noqa: E402
from router.plan import Candidate  # noqa: E402

TIMED = 30
"""Calls per scorer whose CPU time is taken."""
PLAIN, TEACHER, DISTILLED, CONTROL = "fast", "cross-encoder", "fast, distilled", "fast, told the truth"


def with_texts(played: Played, rows: Sequence[Row]) -> list[TextRow]:
    """The rows with what was read; examples are known by their vectors."""
    assert played.answer_vectors is not None
    texts = {
        (q.tobytes(), a.tobytes()): shown(text, answer)
        for q, a, text, answer in zip(
            played.vectors, played.answer_vectors, played.texts, played.answers, strict=True
        )
    }
    return [
        TextRow(
            row,
            played.texts[int(row.request_id)],
            tuple(texts[q.tobytes(), a.tobytes()] for q, a in zip(row.questions, row.answers, strict=True)),
        )
        for row in rows
    ]


def candidates(played: Played, before_s: float, features: Features, seed: int) -> list[TextRow]:
    """Every request before `before_s` with all its candidates, of unknown quality."""
    bank, rows = Bank(played), []
    for i in range(int(before_s / SECONDS_APART)):
        near = bank.near(i, CANDIDATES) if i >= WARM_UP else []
        if near:
            scalars = features.rows(view(played, i), near, SECONDS_APART * i)
            rows.append(_row(played, i, near, scalars, UNKNOWN_QUALITY, 1.0))
        if is_remembered(i, seed):
            bank.add(i)
    return with_texts(played, rows)


class Truth:
    """The control: a teacher who is never wrong."""

    def __init__(self, played: Played) -> None:
        self._played = played
        self._request = {text: i for i, text in enumerate(played.texts)}
        self._example = {
            shown(*both): i for i, both in enumerate(zip(played.texts, played.answers, strict=True))
        }

    def qualities(self, request: str, examples: Sequence[str]) -> tuple[float, np.ndarray]:
        """As router.learning.cross_encoder.Teacher.qualities."""
        world, ask = self._played.world, self._played.asks[self._request[request]]
        shown_ = [Candidate(self._played.example(self._example[text]), 0.0) for text in examples]
        found = [expected_quality(world, ask, [candidate]) for candidate in shown_]
        return expected_quality(world, ask, []), np.array(found)


def cpu_ms(scorer: Scorer, played: Played, requests: range) -> float:
    """Median CPU time of a call with 20 candidates, milliseconds."""
    bank = remembered(played, requests.start, SEED)
    near = {i: bank.near(i, CANDIDATES) for i in requests}
    full = [i for i in requests if len(near[i]) == CANDIDATES][:TIMED]
    times = []
    for i in full:
        scorer.score(view(played, i), near[i])
        began = time.process_time()
        scorer.score(view(played, i), near[i])
        times.append(time.process_time() - began)
    return float(np.median(times)) * 1000


def untrained(encoder: Path, layers: int, folder: Path) -> Path:
    """A cross-encoder of so many layers for timing: what it costs does not depend on its weights."""
    from router.learning.cross_encoder import MOST_TOKENS
    from router.learning.cross_encoder_network import Network
    from router.learning.cross_encoder_texts import PairReader

    separator = PairReader(encoder / "tokenizer.json", MOST_TOKENS).separator
    network = Network(encoder, layers, separator, 0.5, 0)
    path = folder / f"untrained-{layers}.onnx"
    path.write_bytes(cross_encoder_model(network.exported(1.0, 0.0), network.shape, layers, separator))
    return path


def run(
    *,
    requests: int,
    measured: int,
    seed: int,
    worlds: Sequence[int],
    layers: int,
    epochs: int,
    each: int,
    weight: float,
    cache: Path,
) -> dict[str, Any]:
    """Trains in the first world, measures there and in the others; prints as it goes."""
    prepared = prepare("package", cache)
    encoder = locate("package")
    features = Features(Rarity.read(prepared.tokenizer))
    embedder = Embedder.open("package", cache, cache_entries=50_000)
    try:
        played = [play(World(w), requests, seed, embedder.embed_blocking, answers=True) for w in worlds]
    finally:
        embedder.close()
    upto = requests * 4 // 5
    first = played[0]
    texts = with_texts(first, collected(first, upto, features, SEED))
    rows = [one.row for one in texts]
    spent: dict[str, float] = {}
    training: dict[str, Any] = {}
    models = {"prior": prior_model()}

    def timed(name: str, began: float) -> None:
        spent[name] = round(time.process_time() - began, 1)
        print(f"{name}: {spent[name]} s of CPU", flush=True)

    def fast(name: str, taught: Sequence[Row]) -> None:
        began = time.process_time()
        made = trained(rows, prior_model(), seed=seed, loss="pointwise", taught=taught)
        models[name], training[name] = made.model, made.metrics | {"taught": len(taught)}
        timed(f"training {name}", began)
        print(f"{name}: {made.reason}", flush=True)

    fast(PLAIN, ())
    began = time.process_time()
    made = trained_cross_encoder(
        texts, models[PLAIN], encoder, seed=seed, layers=layers, epochs=epochs, tell=_say
    )
    models[TEACHER], training[TEACHER] = made.model, made.metrics
    timed(f"training {TEACHER}", began)
    print(f"{TEACHER}, the fast one being the incumbent: {made.reason}", flush=True)
    asked = candidates(first, split(texts)[0][-1].row.at_s, features, SEED)
    began = time.process_time()
    with Teacher(made.model, encoder / "tokenizer.json") as teacher:
        opinions = soft_rows(teacher, asked, weight=weight, each=each, seed=seed)
    timed(f"asking the {TEACHER}", began)
    truths = soft_rows(Truth(first), asked, weight=weight, each=each, seed=seed)
    agreement = _correlated([r.quality for r in opinions], [r.quality for r in truths])
    print(f"{len(opinions)} opinions; their correlation with the true expected quality: {agreement:.3f}")
    fast(DISTILLED, opinions)
    fast(CONTROL, truths)
    found: dict[str, Any] = {
        "settings": {
            "requests": requests,
            "measured": measured,
            "seed": seed,
            "worlds": list(worlds),
            "layers": layers,
            "epochs": epochs,
            "each": each,
            "weight": weight,
        },
        "training": training,
        "cpu_s": spent,
        "opinions": {"count": len(opinions), "correlation_with_true_quality": agreement},
    }
    with tempfile.TemporaryDirectory() as name, ExitStack() as closing:
        folder = Path(name)

        def opened(version: str, path: Path) -> Scorer:
            # What is measured is the choice: on a busy machine a late score would make it another one.
            scorer = Scorer.open(
                path,
                version=version,
                dimensions=prepared.dimensions,
                features=features,
                deadline_s=60.0,
                tokenizer=prepared.tokenizer,
                clock=CLOCK,
            )
            closing.callback(scorer.close)
            return scorer

        scorers: dict[str, Scorer] = {}
        for version, model in models.items():
            path = folder / f"{version.replace(' ', '-')}.onnx"
            path.write_bytes(model)
            scorers[version] = opened(version, path)
        later = range(upto, min(requests, upto + measured))
        for world, stream in zip(worlds, played, strict=True):
            key = f"world {world}"
            found[key] = compared(stream, later, scorers, Knobs(), SEED)
            print(table(f"World {world}, later requests", found[key]), flush=True)
        times = {version: cpu_ms(scorer, first, later) for version, scorer in scorers.items()}
        for count in (1, 2, 3, 6):
            scorer = opened(f"untrained {count}", untrained(encoder, count, folder))
            times[f"any cross-encoder of {count} layers"] = cpu_ms(scorer, first, later)
    found["cpu_ms_per_20_candidates"] = times
    print(costs(times), flush=True)
    return found


def costs(times: Mapping[str, float]) -> str:
    """Markdown."""
    lines = ["\n| scorer | CPU ms for 20 candidates |", "|---|---|"]
    return "\n".join(lines + [f"| {name} | {ms:.2f} |" for name, ms in times.items()])


def _correlated(one: Sequence[float], other: Sequence[float]) -> float:
    return float(np.corrcoef(one, other)[0, 1])


def _say(line: str) -> None:
    print(line, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=1500, help="length of each stream [%(default)s]")
    parser.add_argument("--measured", type=int, default=100, help="later requests to measure [%(default)s]")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--worlds", type=int, nargs="+", default=[7, 11], help="the first is trained in")
    parser.add_argument("--layers", type=int, default=2, help="of the cross-encoder [%(default)s]")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--each", type=int, default=EACH, help="opinions per request [%(default)s]")
    parser.add_argument("--weight", type=float, default=WEIGHT, help="of an opinion [%(default)s]")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "understudy-helpfulness")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    asked = parser.parse_args(arguments)
    found = run(
        requests=asked.requests,
        measured=asked.measured,
        seed=asked.seed,
        worlds=asked.worlds,
        layers=asked.layers,
        epochs=asked.epochs,
        each=asked.each,
        weight=asked.weight,
        cache=asked.cache / "models",
    )
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
