"""The streams of real and recorded engines, as far as they need neither: joined weights, counts, the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.effect import __main__ as effect
from benchmarks.effect.engines import usd
from benchmarks.effect.playing import Answered, figures, settings
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


def rows(of_small: int) -> list[Answered]:
    """The last so many are answered by the small engine, and right."""
    cost = {"large": usd("large", 100, 10), "small": usd("small", 100, 10)}
    engines = ["large"] * (len(TEXTS) - of_small) + ["small"] * of_small
    said = {"large": LARGE, "small": RIGHT}
    return [Answered(t, e, said[e][t], cost[e], 0.1) for t, e in zip(TEXTS, engines, strict=True)]


def played(of_small: int, learning_usd: float = 0.0) -> dict[str, Any]:
    answered = rows(of_small)
    spent = {"large": {"usd": sum(r.usd for r in answered) + learning_usd, "verdicts": 0, "requests": 400}}
    found = figures(stream(), answered, list(LARGE.values()), spent)
    return found | {"said": "nothing", "wall_s": 1.0, "date": "d", "commit": "c", "machine": "m"}


def test_what_was_played_before_is_printed_without_playing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "told.json"
    file.write_text(json.dumps([played(300)]))
    monkeypatch.setattr("sys.argv", ["effect", "--told", str(file)])
    effect.main()
    assert "| i banking77" in capsys.readouterr().out


def test_the_gateways_configuration_is_its_defaults(tmp_path: Path) -> None:
    made = settings(stream(task=("a", "b")), "http://127.0.0.1:9", tmp_path, 8080)
    served = parse_config(made).models["assistant"]
    assert served.model_fields_set == {"engines", "policy", "tasks"}
