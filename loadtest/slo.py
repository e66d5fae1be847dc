"""Service level objectives, such as `ttft<=500ms,latency<=2s,tpot<=50ms`. Goodput is the rate of answers that meet one."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadtest.records import AT, OK
from loadtest.rows import Rows

_CLAUSE = re.compile(r"^(latency|ttft|tpot)\s*(?:<=|<|=)\s*([0-9.]+)\s*(us|ms|s)$")
_UNIT_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class Slo:
    """Upper limits in s; those not given are infinite."""

    latency_s: float = float("inf")
    ttft_s: float = float("inf")
    tpot_s: float = float("inf")

    def met(self, rows: Rows) -> NDArray[np.bool_]:
        """Which requests were answered completely and in time. An answer of one token has no time per token to miss."""
        good = rows[:, AT["outcome"]] == OK
        good &= rows[:, AT["latency_s"]] <= self.latency_s
        if self.ttft_s != float("inf"):
            good &= rows[:, AT["ttft_s"]] <= self.ttft_s
        if self.tpot_s != float("inf"):
            tpot = rows[:, AT["tpot_s"]]
            good &= np.isnan(tpot) | (tpot <= self.tpot_s)
        return np.asarray(good, dtype=np.bool_)

    def __str__(self) -> str:
        named = (("latency", self.latency_s), ("ttft", self.ttft_s), ("tpot", self.tpot_s))
        return ", ".join(f"{name} <= {limit * 1e3:g} ms" for name, limit in named if limit != float("inf"))


def parse_slo(text: str) -> Slo:
    """Reads clauses separated by commas. Raises ValueError naming the clause and what would be right."""
    limits: dict[str, float] = {}
    for clause in text.split(","):
        found = _CLAUSE.match(clause.strip())
        if not found:
            raise ValueError(
                f"{clause!r} is not a limit: write such as ttft<=500ms, latency<=2s or tpot<=50ms"
            )
        limits[f"{found[1]}_s"] = float(found[2]) * _UNIT_S[found[3]]
    return Slo(**limits)
