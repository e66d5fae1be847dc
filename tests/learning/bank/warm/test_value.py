"""What a warm prefix saves is worked out as written down: lines, decay, who stands first, what fits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from learning.bank.warm.value import Line, Use, decayed_uses, fitted_line, kv_bytes_per_token, kv_plan

NOW = 1_700_000_000.0
HOUR = 3600.0


def test_a_line_is_found_through_noise_and_queues() -> None:
    rng = np.random.default_rng(3)
    tokens = rng.integers(10, 4000, 600)
    latency = 25 + 0.2 * tokens + rng.normal(0, 3, 600)
    latency[::7] += rng.exponential(2000, len(latency[::7]))
    line = fitted_line(tokens.tolist(), latency.tolist())
    assert line is not None
    assert line.per_token_ms == pytest.approx(0.2, rel=0.05)
    assert line.base_ms == pytest.approx(25, abs=8)


def test_too_little_to_go_by_gives_no_line_and_a_longer_prompt_is_never_cheaper() -> None:
    assert fitted_line([1, 2, 3], [1, 2, 3]) is None
    assert fitted_line([7] * 100, list(range(100))) is None
    falling = fitted_line(list(range(50)), [float(100 - x) for x in range(50)])
    assert falling is not None and falling.per_token_ms == 0.0


def test_uses_fade_by_a_tenth_an_hour_and_count_for_who_stands_first() -> None:
    uses = [
        Use("t", NOW, (1, 2)),
        Use("t", NOW - HOUR, (2,)),
        Use("t", NOW - 2 * HOUR, (3, 1)),
        Use("other", NOW, (1,)),
        Use("t", NOW, ()),
    ]
    total, leading = decayed_uses(uses, NOW)
    assert total == pytest.approx({("t", 1): 1.81, ("t", 2): 1.9, ("t", 3): 0.81, ("other", 1): 1.0})
    assert leading == pytest.approx({("t", 2): 1.9, ("t", 1): 0.81, ("other", 1): 1.0})


def test_a_plan_worked_by_hand() -> None:
    uses = (
        [Use("t", NOW, (1,))] * 4
        + [Use("t", NOW, (2,))] * 3
        + [Use("t", NOW, (3,))]
        + [Use("t", NOW, (9,))] * 50
    )
    tokens = {("t", 1): 160, ("t", 2): 40, ("t", 3): 30}
    plan = kv_plan(
        uses, tokens, compute=Line(20, 0.5), load=Line(5, 0.1), block_tokens=16, capacity_blocks=12, now_s=NOW
    )
    # 1: 10 blocks, (80 - 5 - 16) x 4 = 236. 2: 3 blocks, (20 - 5 - 4) x 3 = 33. 3: 2 blocks, (15 - 5 - 3) x 1 = 7.
    # 9 is gone, and 1 with 2 would be one block too many.
    assert [(k.example_id, k.tokens) for k in plan.kept] == [(1, 160), (3, 30)]
    assert [k.saves_ms for k in plan.kept] == pytest.approx([236, 7])
    assert (plan.blocks, plan.exact) == (12, True)


def test_what_loads_slower_than_it_is_computed_is_not_kept() -> None:
    plan = kv_plan(
        [Use("t", NOW, (1,))],
        {("t", 1): 10},
        compute=Line(0, 0.1),
        load=Line(2, 0),
        block_tokens=16,
        capacity_blocks=100,
        now_s=NOW,
    )
    assert plan.kept == () and plan.blocks == 0


def test_the_most_used_stands_first() -> None:
    uses = [Use("t", NOW, (5,)), Use("t", NOW, (4,)), Use("t", NOW, (4,))]
    plan = kv_plan(
        uses,
        {("t", 4): 20, ("t", 5): 20},
        compute=Line(0, 1),
        load=Line(0, 0),
        block_tokens=16,
        capacity_blocks=100,
        now_s=NOW,
    )
    assert [k.example_id for k in plan.kept] == [4, 5]


def test_bytes_per_token_come_from_the_models_own_description() -> None:
    llama = {
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "hidden_size": 4096,
    }
    assert kv_bytes_per_token(llama | {"torch_dtype": "bfloat16"}) == 2 * 32 * 8 * 128 * 2
    assert kv_bytes_per_token(llama, "fp8") == 2 * 32 * 8 * 128
    assert (
        kv_bytes_per_token({"text_config": llama | {"head_dim": 64, "dtype": "torch.float32"}})
        == 2 * 32 * 8 * 64 * 4
    )
    for broken in ({}, llama | {"kv_lora_rank": 512}, llama | {"torch_dtype": "float3"}):
        with pytest.raises(ValueError, match="set bytes_per_token"):
            kv_bytes_per_token(broken)
    assert math.isfinite(kv_bytes_per_token(llama))
