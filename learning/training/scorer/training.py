"""Trains a scorer on outcomes, offline and seeded, and compares it with the one in use.

Rows are split by time: the oldest fit the weights, later ones choose between losses, stop the fit and calibrate it, and
the latest decide. Two losses are compared: pointwise (cross-entropy of a set's expected quality with the observed one)
and pairwise (RankNet: Burges et al. 2005, "Learning to Rank using Gradient Descent", section 3, over outcomes of the
same request with different examples, with a share of the former so that qualities stay qualities). Calibration is
Platt's (1999, "Probabilistic Outputs for Support Vector Machines", section 2), one line for both predictions, so that
their difference is expected quality. Needs torch (extra `train`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from learning.training.scorer.graph import scorer_model
from learning.training.scorer.metrics import comparable_pairs, figures
from learning.training.scorer.rows import Row
from router.embedding.onnx_session import OnnxSession
from router.examples.prior import prior_model
from router.examples.set_quality import set_quality

if TYPE_CHECKING:
    import numpy.typing as npt

    from learning.training.scorer.bank_lessons import Lesson
    from learning.training.scorer.network import Batch, Committee
    from router.embedding.onnx_session import Infer

    Floats = npt.NDArray[np.float64]

Loss = Literal["pointwise", "pairwise"]

LEAST_ROWS = 200
"""Outcomes below which training is pointless."""
LEAST_HELD_OUT = 40
FAMILIAR_FROM, LEAST_NOVEL = 0.8, 40
"""Cosine from which a request counts as seen before; and how many unseen ones are enough to go by."""
HELD_OUT, VALIDATION = 0.15, 0.15
MEMBERS = 4
MOST_DISAGREEMENT = 1e-3
"""Largest difference in quality between torch and onnxruntime."""


class TooFewOutcomes(ValueError):
    """There are too few outcomes. The text says how many there are."""


class TorchMissing(ImportError):
    """torch is not installed. The text says how to install it."""


@dataclass(frozen=True, slots=True)
class Trained:
    """The result of a training."""

    model: bytes
    """ONNX (router.examples.scorer_artifact)."""
    metrics: dict[str, Any]
    """Figures of the new scorer and of the incumbent on the same hold-out; plain JSON."""
    accepted: bool
    reason: str


def trained(
    rows: Sequence[Row],
    incumbent: bytes,
    *,
    seed: int = 0,
    loss: Loss | Literal["auto"] = "auto",
    embedding_version: str = "",
    members: int = MEMBERS,
    lessons: Sequence[Lesson] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Trained:
    """A scorer trained on `rows`, against `incumbent` (an ONNX scorer: the one in use, or the prior). Takes seconds to
    minutes.

    `members`: how many networks are fitted and averaged. `lessons`: what the bank knows by itself
    (learning.training.scorer.bank_lessons), fitted beside the outcomes, by default with the pointwise loss only;
    those of requests as late as the held-out ones are left aside. The same rows, incumbent and seed give the same
    weights on the same machine. `tell` gets a line now and then. Raises TooFewOutcomes, TorchMissing, and
    RuntimeError should the written model not agree with the trained one.
    """
    torch = _torch()
    ordered = sorted(rows, key=lambda row: (row.at_s, row.request_id))
    fit, check, held = _split(ordered)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        earlier = [lesson for lesson in lessons if lesson.at_s < held[0].at_s]
        return _trained(fit, earlier, check, held, incumbent, seed, loss, embedding_version, members, tell)
    finally:
        torch.set_num_threads(before)


def _trained(
    fit: list[Row],
    lessons: Sequence[Lesson],
    check: list[Row],
    held: list[Row],
    incumbent: bytes,
    seed: int,
    loss: Loss | Literal["auto"],
    embedding_version: str,
    members: int,
    tell: Callable[[str], None],
) -> Trained:
    from learning.training.scorer.fitting import fitted
    from learning.training.scorer.lessons_loss import taught_by
    from learning.training.scorer.network import Committee, batch_of

    fit_pairs, check_pairs, held_pairs = (comparable_pairs(part) for part in (fit, check, held))
    novel = _novel(check, fit)
    fit_batch, check_batch, novel_batch = batch_of(fit), batch_of(check), batch_of(novel)
    wanted: list[Loss] = ["pointwise", "pairwise"] if loss == "auto" else [loss]
    if not len(fit_pairs) or (lessons and loss == "auto"):
        wanted = ["pointwise"]
    learnt = taught_by(lessons) if lessons else None
    tell(
        f"{len(fit)} outcomes to fit, {len(check)} to choose by, {len(held)} held out; {len(fit_pairs)} pairs, "
        f"{len(lessons)} lessons"
    )
    best: tuple[float, Loss, bytes] | None = None
    compared: dict[str, dict[str, float]] = {}
    for kind in wanted:
        networks = [
            fitted(fit_batch, novel_batch, fit_pairs, kind, seed + 1000 * m, learnt, studied=m % 2 == 0)
            for m in range(members)
        ]
        network = Committee(tuple(one for one, _ in networks))
        epochs = max(count for _, count in networks)
        slope, offset = _calibration(network, check_batch)
        model = scorer_model(network.exported(slope, offset), embedding_version=embedding_version)
        _require_parity(model, network, check, slope, offset)
        compared[kind] = {**figures(predictions(model, check), check, check_pairs), "epochs": float(epochs)}
        on_novel = figures(predictions(model, novel), novel, check_pairs[:0])["log_loss"]
        compared[kind]["log_loss_of_novel"] = on_novel
        tell(f"{kind}: log loss {on_novel:.4f} on novel requests of the validation after {epochs} epochs")
        if best is None or on_novel < best[0]:
            best = (on_novel, kind, model)
    assert best is not None
    _, chosen, model = best
    new = figures(predictions(model, held), held, held_pairs)
    try:
        before = predictions(incumbent, held)
    except Exception as unusable:
        # Made for other features or cut short: it would be bypassed in service as well, and the prior serve instead.
        tell(
            f"the scorer in use cannot be asked ({type(unusable).__name__}): compared with the prior instead"
        )
        before = predictions(prior_model(), held)
    old = figures(before, held, held_pairs)
    accepted = new["log_loss"] < old["log_loss"]
    verb = "better" if accepted else "not better"
    reason = f"{verb} on the hold-out: log loss {new['log_loss']:.4f}, the incumbent's {old['log_loss']:.4f}"
    metrics = {
        "held_out": _plain(new),
        "incumbent": _plain(old),
        "validation": {kind: _plain(values) for kind, values in compared.items()},
        "loss": chosen,
        "seed": seed,
        "lessons": len(lessons),
        "outcomes": {"fit": len(fit), "validation": len(check), "held_out": len(held)},
        "pairs": {"fit": len(fit_pairs), "validation": len(check_pairs), "held_out": len(held_pairs)},
    }
    return Trained(model, metrics, accepted, reason)


def predictions(model: bytes, rows: Sequence[Row]) -> Floats:
    """Expected quality of each row's set of examples, (rows,), by an ONNX scorer."""
    found = np.zeros(len(rows))
    # On the way every scorer is served, so that what is measured is what will run.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scorer.onnx"
        path.write_bytes(model)
        session = OnnxSession(path, name="scorer-training")
        try:
            for place, row in enumerate(rows):
                found[place] = session.submit(partial(_predicted, row, frozenset(session.inputs))).result()
        finally:
            session.close()
    return found


def _predicted(row: Row, taken: frozenset[str], infer: Infer) -> float:
    none = not len(row.scalars)
    shape = (1, len(row.request))
    feeds = {
        "request": row.request.reshape(shape).astype(np.float32),
        "example_questions": np.zeros(shape, np.float32) if none else row.questions,
        "example_answers": np.zeros(shape, np.float32) if none else row.answers,
        "scalars": np.zeros((1, row.scalars.shape[1]), np.float32) if none else row.scalars,
    }
    with_one, alone = infer({name: array for name, array in feeds.items() if name in taken})[:2]
    return float(set_quality(alone.mean(), with_one.reshape(-1)[: len(row.scalars)]))


def _split(ordered: list[Row]) -> tuple[list[Row], list[Row], list[Row]]:
    """Splits by time, never within one request. Raises TooFewOutcomes."""
    if len(ordered) < LEAST_ROWS:
        raise TooFewOutcomes(f"{len(ordered)} outcomes to learn from; {LEAST_ROWS} are needed")
    first = _boundary(ordered, len(ordered) * (1 - HELD_OUT - VALIDATION))
    second = _boundary(ordered, len(ordered) * (1 - HELD_OUT))
    parts = ordered[:first], ordered[first:second], ordered[second:]
    if min(len(parts[1]), len(parts[2])) < LEAST_HELD_OUT * LEAST_ROWS // len(ordered) // 2 or not parts[0]:
        raise TooFewOutcomes("the outcomes are of so few requests that none can be held out")
    return parts


def _novel(check: list[Row], fit: list[Row]) -> list[Row]:
    """Validation rows whose request is like none that was fitted; all, where these are few.

    Popular requests come again and again, so what was learnt by heart about them would pass for skill.
    """
    known = np.stack([row.request for row in fit])
    nearest = np.array([float((known @ row.request).max()) for row in check])
    novel = [row for row, near in zip(check, nearest, strict=True) if near < FAMILIAR_FROM]
    return novel if len(novel) >= LEAST_NOVEL else check


def _boundary(ordered: list[Row], place: float) -> int:
    at = int(place)
    while at < len(ordered) and ordered[at].request_id == ordered[at - 1].request_id:
        at += 1
    return at


def _calibration(network: Committee, check: Batch) -> tuple[float, float]:
    """Slope and offset of the log-odds that fit the validation rows best, held near 1 and 0 where these are few."""
    import torch

    from learning.training.scorer.calibration import fitted_line

    with torch.no_grad():
        alone, with_one = network.qualities(check)
    return fitted_line(alone, with_one, check.owner, check.quality, check.weight)


def _require_parity(model: bytes, network: Committee, rows: list[Row], slope: float, offset: float) -> None:
    """Raises RuntimeError unless the written model agrees with torch."""
    import torch

    from learning.training.scorer.network import batch_of, calibrated, set_quality_of

    some = rows[:64]
    batch = batch_of(some)
    with torch.no_grad():
        alone, with_one = (calibrated(quality, slope, offset) for quality in network.qualities(batch))
        expected = set_quality_of(alone, with_one, batch.owner).numpy()
    worst = float(np.abs(predictions(model, some) - expected).max())
    if not worst <= MOST_DISAGREEMENT:
        raise RuntimeError(f"the written scorer differs from the trained one by {worst:.2g} in quality")


def _plain(values: dict[str, float]) -> dict[str, float | None]:
    return {name: None if value != value else round(value, 5) for name, value in values.items()}


def _torch() -> Any:
    try:
        import torch
    except ImportError as missing:
        raise TorchMissing("training needs torch: pip install 'understudy-gateway[train]'") from missing
    return torch
