"""Trains a cross-encoder on outcomes with their texts: a scorer for a GPU, or a teacher for the one that runs on a CPU.

It starts from the gateway's own sentence encoder. The split by time, the quality of a set and the calibration are those of
learning.training.scorer.training, so figures of both may be compared. Needs torch (extra `train`).
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from learning.training.scorer import training as scorer_training
from learning.training.scorer.metrics import comparable_pairs, figures
from learning.training.scorer.rows import Row
from learning.training.scorer.training import MOST_DISAGREEMENT, Trained
from router.embedding.onnx_session import OnnxSession
from router.examples.prior import prior_model
from router.examples.set_quality import set_quality
from router.learning.cross_encoder_graph import cross_encoder_model
from router.learning.cross_encoder_texts import PairReader, TextRow, padded

if TYPE_CHECKING:
    import numpy.typing as npt

    from router.embedding.onnx_session import Infer
    from router.learning.cross_encoder_network import Network, Reading

    Floats = npt.NDArray[np.float64]

LAYERS = 2
MOST_TOKENS = 256
"""Of a pair; what router.examples.scorer.Scorer cuts to as well."""
MOST_EPOCHS, PATIENCE = 5, 1
BATCH_ROWS = 16
RATE, HEAD_RATE = 2e-4, 1e-3
WARM_UP, MOST_GRADIENT = 0.1, 1.0
"""Share of the steps until the full rate is reached (it then falls to nothing by the last); and the norm at which gradients
are held. Both as in Devlin et al. 2018, "BERT", appendix A.2."""
DECAY = 0.01
PAIRS_AT_ONCE = 64
PARITY_ROWS = 16


class Teacher:
    """A cross-encoder opened for asking about many requests, one after the other, without a deadline. A context manager."""

    def __init__(self, model: bytes, tokenizer: Path, *, max_tokens: int = MOST_TOKENS) -> None:
        """`model`: ONNX with the `cross_encoder` signature."""
        self._reader = PairReader(tokenizer, max_tokens)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "teacher.onnx"
            path.write_bytes(model)
            self._session = OnnxSession(path, name="teacher")

    def qualities(self, request: str, examples: Sequence[str]) -> tuple[float, Floats]:
        """Quality alone, and with each example by itself (examples,), 0..1."""
        with_one: list[Floats] = []
        alone = 0.0
        # Every call is led by the request by itself: the model tells examples' effects on it.
        for start in range(0, max(1, len(examples)), PAIRS_AT_ONCE):
            some = examples[start : start + PAIRS_AT_ONCE]
            feeds = padded(self._reader.read([(request, text) for text in ("", *some)]))
            found = self._session.submit(partial(_first_output, feeds)).result()
            alone = float(found[0])
            with_one.append(np.asarray(found[1:], np.float64))
        return alone, np.concatenate(with_one)

    def predictions(self, rows: Sequence[TextRow]) -> Floats:
        """Expected quality of each row's set of examples, (rows,)."""
        return np.array([float(set_quality(*self.qualities(one.request, one.examples))) for one in rows])

    def __enter__(self) -> Teacher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()


def _first_output(feeds: dict[str, npt.NDArray[np.int64]], infer: Infer) -> npt.NDArray[Any]:
    return infer(feeds)[0]


def trained_cross_encoder(
    rows: Sequence[TextRow],
    incumbent: bytes,
    encoder: Path,
    *,
    seed: int = 0,
    layers: int = LAYERS,
    epochs: int = MOST_EPOCHS,
    max_tokens: int = MOST_TOKENS,
    tell: Callable[[str], None] = lambda _: None,
) -> Trained:
    """A cross-encoder trained on `rows`, against `incumbent` (a scorer with the `features` signature). Takes minutes.

    `encoder`: the folder of a sentence encoder's weights and tokenizer, as router.embedding.model.locate gives it; its
    first `layers` layers are taken. The latest rows decide whether it is better, and are neither fitted nor stopped by.
    The same rows, incumbent and seed give the same weights on the same machine. Raises
    learning.training.scorer.training.TooFewOutcomes and TorchMissing, router.embedding.minilm_onnx.UnsuitableModel,
    and RuntimeError should the written model not agree with the trained one.
    """
    torch = scorer_training._torch()
    ordered = sorted(rows, key=lambda one: (one.row.at_s, one.row.request_id))
    fit, check, held = split(ordered)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _trained(fit, check, held, incumbent, encoder, seed, layers, epochs, max_tokens, tell)
    finally:
        torch.set_num_threads(before)


def split(ordered: Sequence[TextRow]) -> tuple[list[TextRow], list[TextRow], list[TextRow]]:
    """To fit, to stop by, and to decide: where scorer_training splits the same outcomes. Raises TooFewOutcomes."""
    fit, check, _ = scorer_training._split([one.row for one in ordered])
    first, second = len(fit), len(fit) + len(check)
    return list(ordered[:first]), list(ordered[first:second]), list(ordered[second:])


def held_out_from_s(rows: Sequence[Row]) -> float:
    """The time from which scorer_training would hold these outcomes out: no teacher may have seen later ones.

    Raises TooFewOutcomes.
    """
    ordered = sorted(rows, key=lambda row: (row.at_s, row.request_id))
    return scorer_training._split(ordered)[2][0].at_s


def _trained(
    fit: list[TextRow],
    check: list[TextRow],
    held: list[TextRow],
    incumbent: bytes,
    encoder: Path,
    seed: int,
    layers: int,
    epochs: int,
    max_tokens: int,
    tell: Callable[[str], None],
) -> Trained:
    from router.learning.cross_encoder_network import Network, read_rows

    tokenizer = encoder / "tokenizer.json"
    reader = PairReader(tokenizer, max_tokens)
    network = Network(encoder, layers, reader.separator, _alone(fit), seed)
    fit_reading, check_reading = read_rows(fit, reader), read_rows(check, reader)
    tell(
        f"{len(fit)} outcomes to fit, {len(check)} to stop by, {len(held)} held out; "
        f"{len(fit_reading.pairs)} texts, {layers} layers"
    )
    epoch = _fitted(network, fit_reading, check_reading, epochs, seed, tell)
    slope, offset = _calibration(network, check_reading)
    model = cross_encoder_model(network.exported(slope, offset), network.shape, layers, reader.separator)
    outcomes = [one.row for one in held]
    pairs = comparable_pairs(outcomes)
    with Teacher(model, tokenizer, max_tokens=max_tokens) as teacher:
        _require_parity(teacher, network, check[:PARITY_ROWS], reader, slope, offset)
        new = figures(teacher.predictions(held), outcomes, pairs)
        checked = figures(teacher.predictions(check), [one.row for one in check], pairs[:0])
    old = figures(_by_incumbent(incumbent, outcomes, tell), outcomes, pairs)
    accepted = new["log_loss"] < old["log_loss"]
    verb = "better" if accepted else "not better"
    reason = f"{verb} on the hold-out: log loss {new['log_loss']:.4f}, the incumbent's {old['log_loss']:.4f}"
    metrics: dict[str, Any] = {
        "held_out": scorer_training._plain(new),
        "incumbent": scorer_training._plain(old),
        "validation": scorer_training._plain(checked),
        "loss": "pointwise",
        "seed": seed,
        "layers": layers,
        "epochs": epoch,
        "outcomes": {"fit": len(fit), "validation": len(check), "held_out": len(held)},
        "pairs": {"held_out": len(pairs)},
    }
    return Trained(model, metrics, accepted, reason)


def _by_incumbent(incumbent: bytes, held: list[Row], tell: Callable[[str], None]) -> Floats:
    try:
        return scorer_training.predictions(incumbent, held)
    except Exception as unusable:
        # Cut short, or of the other signature: what would serve in its place is the prior.
        tell(f"the incumbent cannot be asked ({type(unusable).__name__}): compared with the prior instead")
        return scorer_training.predictions(prior_model(), held)


def _alone(rows: Sequence[TextRow]) -> float:
    """Mean quality of the rows without examples; of all, where there are none."""
    without = [one.row for one in rows if not one.examples] or [one.row for one in rows]
    return float(np.average([row.quality for row in without], weights=[row.weight for row in without]))


def _fitted(
    network: Network, fit: Reading, check: Reading, epochs: int, seed: int, tell: Callable[[str], None]
) -> int:
    """Gives the network the weights with the lowest validation loss; returns after how many epochs they were reached."""
    import torch

    shuffle = torch.Generator().manual_seed(seed + 1)
    steps = math.ceil(len(fit.shown) / BATCH_ROWS) * epochs
    optimiser = torch.optim.AdamW(
        [
            {"params": list(network.weights.values()), "lr": RATE},
            {"params": list(network.head.values()), "lr": HEAD_RATE},
        ],
        weight_decay=DECAY,
    )
    every = [*network.weights.values(), *network.head.values()]
    warm = max(1, round(steps * WARM_UP))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / warm, (steps - step) / max(1, steps - warm))
    )
    best, best_loss, best_epoch = network.kept(), math.inf, 0
    for epoch in range(1, epochs + 1):
        for batch in torch.randperm(len(fit.shown), generator=shuffle).split(BATCH_ROWS):
            optimiser.zero_grad()
            _loss(network, fit, batch.tolist(), dropout=True).backward()
            torch.nn.utils.clip_grad_norm_(every, MOST_GRADIENT)
            optimiser.step()
            schedule.step()
        now = _mean_loss(network, check)
        tell(f"epoch {epoch}: log loss {now:.4f} on validation")
        if now < best_loss:
            best, best_loss, best_epoch = network.kept(), now, epoch
        elif epoch - best_epoch > PATIENCE:
            break
    network.restore(best)
    return best_epoch


def _loss(network: Network, reading: Reading, rows: Sequence[int], *, dropout: bool) -> Any:
    import torch

    from learning.training.scorer.network import set_quality_of

    alone, with_one, owner = network.qualities(reading, rows, dropout=dropout)
    quality = set_quality_of(alone, with_one, owner).clamp(1e-5, 1 - 1e-5)
    weight = reading.weight[list(rows)]
    each = torch.nn.functional.binary_cross_entropy(quality, reading.quality[list(rows)], reduction="none")
    return (each * weight).sum() / weight.sum()


def _mean_loss(network: Network, reading: Reading) -> float:
    import torch

    total = 0.0
    with torch.no_grad():
        for rows in torch.arange(len(reading.shown)).split(BATCH_ROWS):
            weight = float(reading.weight[rows].sum())
            total += float(_loss(network, reading, rows.tolist(), dropout=False)) * weight
    return total / float(reading.weight.sum())


def _calibration(network: Network, reading: Reading) -> tuple[float, float]:
    import torch

    from learning.training.scorer.calibration import fitted_line

    with torch.no_grad():
        alone, with_one, owner = network.qualities(reading, range(len(reading.shown)))
    return fitted_line(alone, with_one, owner, reading.quality, reading.weight)


def _require_parity(
    teacher: Teacher, network: Network, rows: list[TextRow], reader: PairReader, slope: float, offset: float
) -> None:
    """Raises RuntimeError unless the written model says what torch says."""
    import torch

    from learning.training.scorer.network import calibrated
    from router.learning.cross_encoder_network import read_rows

    with torch.no_grad():
        alone, with_one, owner = network.qualities(read_rows(rows, reader), range(len(rows)))
    alone, with_one = (calibrated(each, slope, offset).numpy() for each in (alone, with_one))
    worst = 0.0
    for place, one in enumerate(rows):
        by_itself, with_each = teacher.qualities(one.request, one.examples)
        expected = [alone[place], *with_one[(owner == place).numpy()]]
        worst = max(worst, float(np.abs(np.array([by_itself, *with_each]) - expected).max()))
    if not worst <= MOST_DISAGREEMENT:
        raise RuntimeError(
            f"the written cross-encoder differs from the trained one by {worst:.2g} in quality"
        )
