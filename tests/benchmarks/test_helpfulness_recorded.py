"""The benchmark measures what it says: no prompt meets its own pair or a twin, nothing learnt from what is tested."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.helpfulness import cases, recorded
from router.plan import Candidate
from store.records import Example


def case(count: int = 240, kinds: int = 6, seed: int = 3) -> Any:
    """Labels as clusters, well mixed; every tenth pair has a twin in its own group."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((kinds, 16))
    labels = [f"kind {i % kinds}" for i in range(count)]
    vectors = np.stack([centres[i % kinds] + 0.9 * rng.standard_normal(16) for i in range(count)])
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    groups = [i - 1 if i % 10 == 1 else i for i in range(count)]
    for i in range(1, count, 10):
        vectors[i] = vectors[i - 1]
        labels[i] = labels[i - 1]
    prompts = [f"Please do thing {i} of {labels[i]}" for i in range(count)]
    answers = np.eye(16, dtype=np.float32)[[int(label.split()[1]) for label in labels]]
    return cases.Case("made", prompts, list(labels), labels, groups, vectors, answers)


def test_every_prompt_is_tested_once_and_no_group_is_split() -> None:
    made = case()
    tested: list[int] = []
    for bank, asked in cases.folds(made, 5, seed=0):
        assert not set(bank) & set(asked)
        assert not {made.groups[i] for i in bank} & {made.groups[i] for i in asked}
        tested += asked.tolist()
    assert sorted(tested) == list(range(240))


def test_no_prompt_gets_itself_or_its_twin_and_the_nearest_come_first() -> None:
    made = case()
    bank = np.arange(240)
    for i, candidates in zip(range(0, 240, 7), cases.nearest(made, range(0, 240, 7), bank, 20), strict=True):
        assert len(candidates) == 20
        assert all(made.groups[c.example.id] != made.groups[i] for c in candidates)
        similarities = [c.similarity for c in candidates]
        assert similarities == sorted(similarities, reverse=True)
        others = [j for j in range(240) if made.groups[j] != made.groups[i]]
        assert similarities[0] == pytest.approx(
            float((made.vectors[others] @ made.vectors[i]).max()), abs=1e-5
        )


def test_the_scorer_learns_from_prompts_and_examples_of_the_other_folds_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = case()
    bank, asked = cases.folds(made, 5, seed=0)[0]
    seen: list[Any] = []

    def note(rows: Sequence[Any], incumbent: bytes, **options: Any) -> Any:
        seen.extend(rows)
        raise InterruptedError

    monkeypatch.setattr(recorded, "trained", note)
    settings = recorded.Settings(learnt_from=100)
    with pytest.raises(InterruptedError):
        recorded.learnt(made, bank, settings, recorded.Features(recorded.Rarity()), np.random.default_rng(0))
    tested = {made.vectors[i].tobytes() for i in asked}
    assert len(seen) == 100 * (1 + settings.labelled_each)
    for row in seen:
        assert row.request.tobytes() not in tested
        assert all(vector.tobytes() not in tested for vector in row.questions)
        if len(row.questions):
            mine = {v.tobytes(): label for v, label in zip(made.vectors, made.labels, strict=True)}
            right = mine[row.request.tobytes()] == mine[row.questions[0].tobytes()]
            assert row.quality == float(right)
        else:
            assert row.quality == 0.0, "without examples there is no right one"


def sent(*ids: int) -> list[Candidate]:
    return [Candidate(Example(i, i, "t", "s", "q" * 40, "a" * 40, "large", 0.0), 0.5) for i in ids]


def test_what_a_prefix_cache_would_save_is_counted_from_the_front_only() -> None:
    assert recorded.prefix_share([sent(1, 2), sent(1, 2)]) == 0.5
    assert recorded.prefix_share([sent(1, 2), sent(1, 3)]) == 0.25
    assert recorded.prefix_share([sent(1, 2), sent(2, 1)]) == 0.0
    assert recorded.prefix_share([[], []]) == 0.0


def test_the_comparison_is_always_at_the_same_number() -> None:
    rng = random.Random(1)
    for alone in (0.0, 0.5, 0.9):
        scored = [
            Candidate(c.example, 0.5, gain=rng.uniform(-0.9, 0.9) * (1 - alone)) for c in sent(*range(20))
        ]
        chosen = recorded._filled(scored, alone, 5)
        assert len({c.example.id for c in chosen}) == 5
        best = sorted(scored, key=lambda c: -(c.gain or 0.0))[:5]
        assert {c.example.id for c in chosen} == {c.example.id for c in best}


def test_a_difference_that_is_noise_is_not_called_one() -> None:
    rng = np.random.default_rng(2)
    one, other, better = (recorded.Chosen() for _ in range(3))
    for _ in range(500):
        one.right.append(int(rng.integers(0, 6)))
        other.right.append(int(rng.integers(0, 6)))
        better.right.append(min(5, one.right[-1] + int(rng.random() < 0.3)))
        for chosen in (one, other, better):
            chosen.sent.append(5)
    noise = recorded._difference(one, other, 0)
    assert noise["low"] < 0 < noise["high"]
    real = recorded._difference(better, one, 0)
    assert real["low"] > 0 and real["low"] < real["difference"] < real["high"]


def test_a_case_without_its_file_is_left_out_with_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = recorded.run(tmp_path, None, cache=tmp_path / "cache", settings=recorded.Settings())
    assert figures["cases"] == {}
    assert "sim_banking77.jsonl.gz is not in" in capsys.readouterr().out


@pytest.mark.train
def test_a_small_run_gives_every_figure_and_a_scorer_that_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "CASES", {"made": lambda *_: case()})
    monkeypatch.setattr(recorded, "_rarity", lambda _: recorded.Rarity())
    settings = recorded.Settings(k=3, folds=2, learnt_from=60)
    recorded.run(tmp_path, tmp_path / "f.json", cache=tmp_path, settings=settings, cases=["made"])
    found = json.loads((tmp_path / "f.json").read_text())["cases"]["made"]
    assert found["prompts"] == 240 and len(found["folds"]) == 2
    ways = found["ways"]
    assert {ways[way]["examples"] for way in ("nearest", "prior", "trained", "oracle")} == {3.0}
    shares = {way: figures["right_share"] for way, figures in ways.items()}
    assert shares["oracle"] >= shares["trained"] > shares["random of the bank"]
    # The answer's vector names the kind, which only training can find out.
    assert shares["trained"] > shares["nearest"]
    served, nearest = ways["trained, as served"], ways["nearest, as many as served"]
    assert served["examples"] == nearest["examples"] <= 3
