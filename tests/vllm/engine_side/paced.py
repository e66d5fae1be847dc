"""Loaded by vLLM into the process that computes, never by us: makes each of its steps take a while, when told to.

A model this small makes hundreds of tokens before anybody else has had a turn on the processor, so that its answers have no
middle. Its pace cannot be kept from outside: on a machine of two processors, whoever means to stop it after
five milliseconds was seen to come after a second, and the whole answer. So it waits by itself.
"""

import os
import time
from pathlib import Path

from torch import Tensor
from vllm.config import VllmConfig
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor

STEP_S = 0.2
"""An answer of hundreds of tokens takes a minute or more, on any machine."""


class Paced(LogitsProcessor):
    """Changes no logit. Each step takes STEP_S longer while the file that PACE_FILE names is there."""

    def __init__(self, vllm_config: VllmConfig, device: object, is_pin_memory: bool) -> None:
        self._told = Path(os.environ["PACE_FILE"])

    def apply(self, logits: Tensor) -> Tensor:
        if self._told.exists():
            time.sleep(STEP_S)
        return logits

    def is_argmax_invariant(self) -> bool:
        # It is; but vLLM would then pass it over wherever the likeliest token is taken.
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Nothing is kept of any request."""
