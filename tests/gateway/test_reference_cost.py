"""What the reference engine would have charged: for a hit, for an offloaded request, and for its own answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.decisions.requests import RequestLog
from tests.flow.line import Line, line, upstream


def config(url: str, folder: Path) -> dict[str, object]:
    def engine(name: str, price: float) -> dict[str, object]:
        return {
            "base_url": url,
            "model": name,
            "price": {"input_usd_per_mtok": price, "output_usd_per_mtok": price},
        }

    return {
        "upstream": {"base_url": url},
        "engines": {"small": engine("s", 1), "large": engine("l", 10)},
        "models": {
            "gpt-4o": {
                "engines": ["small", "large"],
                "policy": "few_shot",
                "few_shot": {"m": 1, "theta": 0.7},
            }
        },
        "memory": {"data_dir": str(folder)},
    }


def log(made: Line) -> RequestLog:
    assert made.gateway.memory is not None
    return made.gateway.memory.store.decisions.requests


async def test_what_the_reference_would_have_charged_is_noted_with_every_answer(tmp_path: Path) -> None:
    async with upstream() as behind, line(config(behind.url, tmp_path)) as made:
        # The upstream counts 7 tokens in and 3 out, whatever it is asked.
        await made.chat("What is the boiling point of water at sea level?")
        await made.chat("What is the boiling point of water at sea level?")
        got = await made.chat("What is the boiling point of water at the sea level?")
        assert got.headers["x-understudy-examples"] == "1" and got.headers["x-understudy-engine"] == "small"
        await made.chat("Hello?", model="not-listed")
        other, offloaded, hit, first = log(made).recent()
    assert first.reference_cost_usd == pytest.approx(10 * 10 / 1e6) == first.cost_usd
    assert hit.reference_cost_usd == pytest.approx(10 * 10 / 1e6) and hit.cost_usd == 0
    # The reference would have got the question without the example: fewer of the 7 tokens.
    assert offloaded.cost_usd == pytest.approx(10 / 1e6)
    assert offloaded.reference_cost_usd is not None
    assert 30 / 1e6 < offloaded.reference_cost_usd < 100 / 1e6
    assert other.cost_usd is None and not other.reference_cost_usd, (
        "the upstream has no price: unpriced, which is not 0"
    )
