"""The benchmark measures what it says: no prompt meets its own pair or a twin, nothing is learnt from what is asked."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.helpfulness import cases, judge, recorded
from router.examples.rarity import Rarity
from router.plan import Candidate
from store.records import Example


def case(count: int = 240, kinds: int = 6, seed: int = 3) -> cases.Case:
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
    prompts = [f"Please do thing {i} about subject{i % 7} of it" for i in range(count)]
    answers = np.eye(16, dtype=np.float32)[[int(label.split()[1]) for label in labels]]
    right = [frozenset([label]) for label in labels]
    return cases.Case("made", "labels", prompts, labels, right, groups, vectors, answers)


def written(path: Path, rows: list[dict[str, Any]]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def test_every_prompt_is_asked_once_and_no_group_is_split() -> None:
    made = case()
    tested: list[int] = []
    for bank, asked in cases.folds(made, 5, seed=0):
        assert not set(bank) & set(asked)
        assert not {made.groups[i] for i in bank} & {made.groups[i] for i in asked}
        tested += asked.tolist()
    assert sorted(tested) == list(range(240))


def test_candidates_are_the_nearest_and_those_with_the_words_and_never_of_the_prompts_group() -> None:
    made = case()
    bank = recorded.Bank(made, np.arange(0, 240, 2), Rarity())
    asked = list(range(0, 240, 14))
    for i, near in zip(asked, bank.near(asked), strict=True):
        assert all(made.groups[c.example.id] != made.groups[i] for c in near)
        similarities = [c.similarity for c in near]
        assert similarities == sorted(similarities, reverse=True)
        there = [j for j in range(0, 240, 2) if made.groups[j] != made.groups[i]]
        assert similarities[0] == pytest.approx(
            float((made.vectors[there] @ made.vectors[i]).max()), abs=1e-5
        )
        worded = [c for c in near if c.words]
        assert worded and all(f"subject{i % 7}" in c.example.question for c in worded)


def test_files_are_read_by_their_schema_and_others_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases, "embedded", lambda texts, cache: np.eye(len(texts), 8, dtype=np.float32))
    texts = [
        {"text": "a b", "gold": "one_x", "llm_label": "two"},
        {"text": "c", "gold": "one_x", "llm_label": "one_x"},
    ]
    written(tmp_path / "caching_x.jsonl.gz", texts)
    written(tmp_path / "sim_x.jsonl.gz", [{"text": "a", "intent": "one"}])
    written(
        tmp_path / "bank_c.jsonl.gz",
        [{"prompt": "p", "response": "ls -l", "group": 1}, {"prompt": "q", "response": "ls -a", "group": 2}],
    )
    written(
        tmp_path / "bank_q.jsonl.gz",
        [{"prompt": "p", "answers": ["The A.", "B"]}, {"prompt": "q", "answers": ["b"]}],
    )
    written(tmp_path / "bank_other.jsonl.gz", [{"prompt": "p", "response": "r"}])
    written(tmp_path / "router_x.jsonl.gz", [{"text": "a", "label": "b"}])
    found = {made.name: made for made in cases.cases(tmp_path, tmp_path)}
    assert set(found) == {"caching_x", "sim_x", "bank_c", "bank_q"}
    labels = found["caching_x"]
    assert [labels.worth(i, j) for i, j in ((0, 0), (0, 1), (1, 1))] == [0.0, 1.0, 1.0], (
        "what the label says is shown, what is right counts"
    )
    assert found["bank_c"].worth(0, 1) == pytest.approx(0.5)
    assert found["bank_q"].worth(0, 1) == 1.0 and found["bank_q"].worth(1, 0) == 0.0


def test_the_judge_has_two_families_and_both_prefer_what_is_right() -> None:
    for family in judge.FAMILIES:
        alone = judge.quality(family, 0.3, [], [])
        right = judge.quality(family, 0.3, [1.0, 1.0], ["a", "a"])
        wrong = judge.quality(family, 0.3, [0.0, 0.0], ["b", "b"])
        assert wrong < alone == 0.3 < right <= 1.0
    one, votes = judge.FAMILIES
    mixed = [1.0, 0.0, 0.0, 0.0], ["a", "b", "b", "b"]
    assert judge.quality(one, 0.3, *mixed) > 0.8 > 0.4 > judge.quality(votes, 0.3, *mixed)
    assert 0.0 <= judge.alone(0, 5) == judge.alone(0, 5) <= 0.6


def test_what_is_observed_is_right_as_often_as_expected() -> None:
    rng = random.Random(3)
    seen = [judge.observed(0.7, graded=False, rng=rng) for _ in range(3000)]
    assert set(seen) == {0.0, 1.0} and np.mean(seen) == pytest.approx(0.7, abs=0.03)
    assert np.mean([judge.observed(0.5, graded=True, rng=rng) for _ in range(3000)]) == pytest.approx(
        0.5, abs=0.01
    )


def sent(*lengths: int) -> list[Candidate]:
    return [Candidate(Example(i, i, "t", "s", "q" * n, "", "large", 0.0), 0.5) for i, n in enumerate(lengths)]


def test_as_many_tokens_are_as_many_of_the_nearest_as_they_pay_for() -> None:
    near = sent(48, 48, 48, 48)
    cost = recorded.example_tokens(near[0])
    assert [len(recorded.same_tokens(near, n * cost)) for n in range(5)] == [0, 1, 2, 3, 4]
    assert (
        len(recorded.same_tokens(near, int(1.6 * cost))) == 2
        and len(recorded.same_tokens(near, int(1.4 * cost))) == 1
    )


def test_a_difference_that_is_noise_is_not_called_one() -> None:
    rng = np.random.default_rng(2)
    mean, low, high = recorded.interval(rng.normal(0.0, 0.3, 500), 0)
    assert low < 0 < high and low < mean < high
    _, low, _ = recorded.interval(rng.normal(0.1, 0.3, 500), 0)
    assert low > 0


def test_a_folder_without_a_file_that_fits_gives_no_case(tmp_path: Path) -> None:
    assert list(cases.cases(tmp_path, tmp_path)) == []


@pytest.mark.slow
def test_a_small_run_gives_every_figure_and_a_scorer_that_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "cases", lambda *_: iter([case(480)]))
    settings = recorded.Settings(folds=2, outcomes=220)
    figures = recorded.run(tmp_path, tmp_path / "f.json", cache=tmp_path, settings=settings)
    found = json.loads((tmp_path / "f.json").read_text())["cases"]["made"]["families"]
    assert set(found) == set(judge.FAMILIES) and set(figures["average"]) == set(
        found["several vote"]["differences"]
    )
    for of in found.values():
        assert of["prompts"] == 480 and len(of["trainings"]) == 2
        quality = {way: each["quality"] for way, each in of["ways"].items()}
        assert quality["oracle"] >= max(quality.values()) - 1e-9
        assert quality["prior, as served"] == pytest.approx(quality["nearest 5"], abs=0.05)
        assert quality[recorded.SERVED] > quality["none"]
    votes = {way: each["quality"] for way, each in found["several vote"]["ways"].items()}
    assert votes[recorded.SERVED] > votes["nearest 5"] - 0.01, (
        "labels are clusters: the nearest are right here"
    )
