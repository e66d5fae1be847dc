"""What a request is expected to cost is what requests like it did cost, on recorded pairs."""

from __future__ import annotations

import random
import re
import statistics
import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.recorded import DATA, rows
from engines.chat import ChatRequest, estimated_tokens
from engines.engine import Price
from engines.servers.pace import mean
from router.choosing.chooser import Chooser, Situation
from router.choosing.features import Request
from router.choosing.lengths import UNKNOWN_LENGTHS, NearLengths
from router.choosing.load import EngineState
from router.prompt import prompt_tokens, tokens_needed
from store.records import Vector
from tests.knobs import chooser_knobs

FILES = ("bank_alpaca_open.jsonl.gz", "bank_gsm8k_train.jsonl.gz", "bank_nl2bash_open.jsonl.gz")
PRICE = Price(2.5, 10.0)
EACH, BANK = 250, 400


def pairs() -> list[tuple[str, str]]:
    if not all((DATA / name).is_file() for name in FILES):
        pytest.skip(f"recorded pairs are not in {DATA}")
    found = []
    for name in FILES:
        for row in rows(DATA / name)[:EACH]:
            question = row.get("prompt") or f"{row['instruction']} {row['input']}"
            found.append((str(question), str(row["response"])))
    random.Random(3).shuffle(found)
    return found


def vector(text: str) -> Vector:
    """Which words it has: enough to tell these three kinds apart."""
    made = np.zeros(2048, dtype=np.float32)
    for word in set(re.findall(r"\w+", text.lower())):
        made[zlib.crc32(word.encode()) % 2048] = 1.0
    return np.asarray(made / max(1.0, float(np.linalg.norm(made))), dtype=np.float32)


def expected_usd(question: str, usual: float | None, near: NearLengths) -> float:
    messages = [{"role": "user", "content": question}]
    chat = ChatRequest(b"", {}, "m", messages, stream=False, include_usage=False)
    state = EngineState("large", PRICE, answer_tokens=usual)
    situation = Situation(
        Request(question, prompt_tokens=tokens_needed(chat)),
        (state,),
        prompt_tokens=prompt_tokens(chat),
        near_lengths=near,
    )
    chooser = Chooser(chooser_knobs())
    return chooser.choose(situation, None, random.Random(1)).weighed[0].cost_usd


def off_by(expected: Sequence[float], actual: Sequence[float]) -> float:
    """The median factor by which one request's expected cost is off."""
    return statistics.median(max(e / a, a / e) for e, a in zip(expected, actual, strict=True))


def test_expected_costs_add_up_to_actual_ones_and_near_answers_tell_single_requests() -> None:
    known = pairs()
    vectors = np.stack([vector(question) for question, _ in known[:BANK]])
    lengths = [estimated_tokens(answer) for _, answer in known]
    usual: float | None = None
    for tokens in lengths[:BANK]:
        usual = mean(usual, float(tokens))
    by_mean, by_near, actual = [], [], []
    for (question, _), tokens in zip(known[BANK:], lengths[BANK:], strict=True):
        similarities = vectors @ vector(question)
        places = np.argsort(-similarities)[:20]
        near = NearLengths.of((float(similarities[p]), lengths[p]) for p in places)
        by_mean.append(expected_usd(question, usual, UNKNOWN_LENGTHS))
        by_near.append(expected_usd(question, usual, near))
        actual.append(((estimated_tokens(question) + 4) * 2.5 + tokens * 10.0) / 1e6)
        usual = mean(usual, float(tokens))
    assert 0.8 < sum(by_mean) / sum(actual) < 1.25
    assert 0.8 < sum(by_near) / sum(actual) < 1.25
    assert off_by(by_near, actual) < 2 and off_by(by_near, actual) < off_by(by_mean, actual)


def test_what_tells_nothing_leaves_the_engines_own_mean() -> None:
    assert NearLengths.of([]) == UNKNOWN_LENGTHS == NearLengths.of([(0.9, 0), (0.1, 50)])
    assert UNKNOWN_LENGTHS.expected(70.0) == pytest.approx(70.0)
    sure = replace(UNKNOWN_LENGTHS, weight=1e9, tokens=12.0)
    assert sure.expected(70.0) == pytest.approx(12.0)
