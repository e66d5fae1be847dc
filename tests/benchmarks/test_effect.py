"""The streams of real and recorded engines, as far as they need neither: joined weights, counts, the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.effect.playing import settings
from benchmarks.effect.streams import Stream, same_label
from understudy.settings.file import parse_config

TEXTS = [f"request {n}" for n in range(400)]
RIGHT = {text: ("lost_card", "exchange_rate")[n % 2] for n, text in enumerate(TEXTS)}
LARGE = {text: right if n % 5 else "other" for n, (text, right) in enumerate(RIGHT.items())}


def stream(**more: Any) -> Stream:
    parts = {
        "instruction": "Classify",
        "texts": TEXTS,
        "right": RIGHT,
        "grade": same_label,
        "recorded": LARGE,
    }
    return Stream(**{"key": "i", "title": "", "small": "gold", "large": "recorded", **parts, **more})


def test_the_gateways_configuration_is_its_defaults(tmp_path: Path) -> None:
    made = settings(stream(task=("a", "b")), "http://127.0.0.1:9", tmp_path, 8080)
    served = parse_config(made).models["assistant"]
    assert served.model_fields_set == {"engines", "policy", "tasks"}
