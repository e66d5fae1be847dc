"""What the EchoLM paper reports, as numbers: what the simulation is calibrated on, and what it is printed beside.

Nothing here was measured by us. "Figure" marks what the paper's text says about a figure; the figures themselves are images.
"""

from __future__ import annotations

from dataclasses import dataclass

TIE_BAND = 0.3
"""§6.1: a mean score within it is a tie. Win rate = (wins + ties / 2) / all."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A row of Table 5: Gemma-2-2B judged against Gemma-2-27B, without and with examples."""

    name: str
    wins_alone: float
    score_alone: float
    wins_with: float
    score_with: float


GEMMA = (
    Dataset("Alpaca", 0.4558, -0.1896, 0.4725, -0.1792),
    Dataset("LMSys-Chat", 0.4295, -0.3320, 0.4708, -0.2008),
    Dataset("OpenOrca", 0.3868, -0.5057, 0.4525, -0.2915),
    Dataset("MS MARCO", 0.4154, -0.4272, 0.5730, 0.0960),
    Dataset("Natural Questions", 0.2787, -1.0322, 0.4744, -0.2570),
)
"""Table 5, Gemma."""

LARGE_GPUS, SMALL_GPUS = 2, 1
"""Table 1: A100s that gemma-2-27b-it and gemma-2-2b-it run on."""
LARGE_PARAMETERS, SMALL_PARAMETERS = 27.2e9, 2.6e9
"""Table 1."""

IDLE_LATENCY_CUT = 0.71
"""Figure 18, left: 2B with examples against 27B, no load."""
IDLE_CUT_TO_SMALL = 0.03
"""Figure 18, left: 2B with examples against 2B alone."""
SMALL_THROUGHPUT = 5.1
"""Figure 18, right: 2B with examples against 27B, same resources, Alpaca."""
P50_CUT, P99_CUT = (0.75, 0.83), (0.69, 0.71)
"""Figure 16, over 1, 2 and 4 requests/s: 2B with examples against 27B."""

THROUGHPUT_CLAIM = "1.4-5.9x (abstract); +0.4-4.9x (§1, §6)"
LATENCY_CLAIM = "28-71 % lower (abstract)"
NO_LOSS_CLAIM = (
    "2.8x at equal quality on Alpaca; 2x at its best win rate of about 60 % on MS MARCO (Figure 19)"
)
