"""A scorer trained as an operator would: traffic in which examples are dropped and swapped, feedback, `learn scorer`.

The bank of this traffic is its own, with one phrasing of half the facts; what is trained on its log is used elsewhere.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.tiny_models.world import PHRASINGS
from benchmarks.understudy_effect.asking import (
    WORLD,
    Question,
    all_answered,
    served_model,
    summary,
    with_feedback,
)
from benchmarks.understudy_effect.frozen import Plan, configuration, filled
from benchmarks.vllm.serving import Served
from tests.vllm.guide import guided

REQUESTS = 1000
_TRIED = {"key_share": 1.0, "scorer_deadline_ms": 10_000, "label_share": 0.5}
"""Half of the offloaded requests drop their example or swap it for another near one: else nobody could tell what helps."""


def plan(seed: int) -> Plan:
    """Half the facts, each in one phrasing, asked in others."""
    rng = random.Random(f"logged-{seed}")
    kept = {fact: (rng.randrange(len(PHRASINGS)),) for fact in rng.sample(WORLD.facts, len(WORLD.facts) // 2)}
    asked = []
    while len(asked) < REQUESTS:
        question = Question(rng.choice(list(kept)), rng.randrange(len(PHRASINGS)))
        if question.phrasing not in kept[question.fact]:
            asked.append(question)
    return Plan(kept, asked)


def trained(folder: Path, small: Served, large: Served, seed: int) -> tuple[bytes, dict[str, Any]]:
    """The scorer, and what the command said of it. Raises RuntimeError where it trained none."""
    place = folder / "logged"
    place.mkdir()
    config = configuration(place / "data", small, large)
    config["models"]["guide"] |= {"advanced": _TRIED}
    drawn = plan(seed)
    with guided(place, config) as guide:
        guide.key = ""
        filled(guide, drawn)
        rows, _ = all_answered(drawn.questions, with_feedback(guide, served_model(guide, "guide"), 1.0))
    command = [sys.executable, "-m", "understudy", "learn", "scorer", "--data", str(place / "data")]
    command += ["--model", "guide", "--seed", str(seed)]
    ended = subprocess.run(command, capture_output=True, text=True)
    version = re.search(r"scorer version (\d+) is (\w+)", ended.stdout)
    if version is None:
        raise RuntimeError(f"no scorer was trained:\n{ended.stdout}{ended.stderr}")
    out = folder / "scorer.onnx"
    export = [sys.executable, "-m", "understudy", "models", "export", version[1], "-o", str(out)]
    subprocess.run([*export, "--data", str(place / "data")], check=True, capture_output=True)
    said = {
        "state": version[2],
        "said": ended.stdout.splitlines(),
        "requests": REQUESTS,
        "log": summary(rows),
    }
    return out.read_bytes(), said
