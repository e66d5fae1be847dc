"""Prices: what nobody said is unpriced and never 0, and each part of what was used is charged by its own price."""

from __future__ import annotations

import pytest

from engines.chat import Usage
from engines.engine import Price


def test_what_has_no_price_is_unpriced() -> None:
    """LiteLLM #35691: a model that is in no price list was free."""
    assert Price().cost_usd(Usage(1000, 1000)) is None and not Price().known
    assert Price(0.0, 0.0).cost_usd(Usage(1000, 1000)) == 0.0 and Price(0.0).known
    assert Price(1.0).cost_usd(Usage(1000, 0)) == pytest.approx(0.001), "embeddings have no completion"
    assert Price(1.0).cost_usd(Usage(1000, 1)) is None
    assert Price(1.0, 1.0).cost_usd(Usage(0, 0)) == 0.0


def test_cached_tokens_and_cache_writes_have_their_own_price() -> None:
    price = Price(3.0, 15.0, cached_input_usd_per_mtok=0.3, cache_write_usd_per_mtok=3.75)
    usage = Usage(1_000_000, 100_000, cached_tokens=600_000, cache_write_tokens=300_000)
    assert price.cost_usd(usage) == pytest.approx(0.1 * 3 + 0.6 * 0.3 + 0.3 * 3.75 + 0.1 * 15)
    assert Price(3.0, 15.0).cost_usd(usage) == pytest.approx(3 + 1.5), (
        "without one they are charged as any other"
    )


def test_the_service_tier_that_the_answer_names_multiplies() -> None:
    """LiteLLM #13810: what was asked for as flex may have been served, and charged, as something else."""
    price = Price(1.0, 2.0, service_tiers=(("flex", 0.5), ("priority", 2.0)))
    assert price.cost_usd(Usage(1_000_000, 0, service_tier="flex")) == pytest.approx(0.5)
    assert price.cost_usd(Usage(1_000_000, 0, service_tier="default")) == pytest.approx(1.0)
    assert price.cost_usd(Usage(1_000_000, 0)) == pytest.approx(1.0)
    assert price.most_usd(1_000_000, 0) == pytest.approx(2.0), "nobody knows before which one it will be"


def test_requests_and_images_are_charged_by_the_piece() -> None:
    assert Price(usd_per_request=0.01).cost_usd(Usage(5, 5)) == pytest.approx(0.01)
    assert Price(usd_per_image=0.04).cost_usd(Usage(0, 0, images=3)) == pytest.approx(0.12)
    assert Price(usd_per_image=0.04).cost_usd(Usage(5, 5)) is None
    assert Price(1.0, 2.0).cost_usd(Usage(0, 0, images=1)) is None, "an image without tokens"
    assert Price(1.0, 2.0).cost_usd(Usage(10**6, 0, images=1)) == pytest.approx(1.0)
    every = Price(1.0, 2.0, usd_per_request=0.01, usd_per_image=0.04)
    assert every.cost_usd(Usage(10**6, 0, images=1)) == pytest.approx(1.05)


def test_the_most_is_never_less_than_what_it_turns_out_to_be() -> None:
    price = Price(3.0, 15.0, 0.3, 3.75, 0.001, None, (("priority", 1.5),))
    for cached, written, tier in ((0, 0, ""), (1000, 0, ""), (0, 1000, "priority"), (500, 500, "flex")):
        used = price.cost_usd(Usage(1000, 50, cached, False, written, 0, tier))
        most = price.most_usd(1000, 50)
        assert used is not None and most is not None and used <= most + 1e-12


def test_engines_without_a_price_are_compared_as_if_they_were_free() -> None:
    assert Price().compared_usd(10**6, 10**6) == 0.0 and Price().both_usd_per_mtok == 0.0
    assert Price(1.0, 2.0, usd_per_request=0.5).compared_usd(10**6, 10**6) == pytest.approx(3.5)


def test_what_a_cache_keeps_for_an_hour_has_a_price_of_its_own() -> None:
    price = Price(3.0, 15.0, 0.3, 3.75, cache_write_1h_usd_per_mtok=6.0)
    usage = Usage(10**6, 0, cache_write_tokens=400_000, cache_write_1h_tokens=100_000)
    assert price.cost_usd(usage) == pytest.approx(0.6 * 3 + 0.3 * 3.75 + 0.1 * 6)
    assert price.most_usd(10**6, 0) == pytest.approx(6.0)
    assert Price(3.0, 15.0, 0.3, 3.75).cost_usd(usage) == pytest.approx(0.6 * 3 + 0.4 * 3.75)
    assert Price(3.0).cost_usd(usage) == pytest.approx(3.0)
    only_an_hour = Price(3.0, cache_write_1h_usd_per_mtok=6.0)
    assert only_an_hour.most_usd(10**6, 0) == pytest.approx(6.0)


def test_a_prompt_beyond_the_threshold_is_dearer_and_so_is_its_answer() -> None:
    price = Price(
        1.25,
        10.0,
        0.125,
        long_prompt_above_tokens=200_000,
        long_prompt_input_factor=2.0,
        long_prompt_output_factor=1.5,
    )
    assert price.cost_usd(Usage(200_000, 1_000)) == pytest.approx(0.25 + 0.01)
    long = Usage(200_001, 1_000, cached_tokens=200_001)
    assert price.cost_usd(long) == pytest.approx(200_001 * 0.25 / 1e6 + 0.015)
    assert price.most_usd(400_000, 1_000) == pytest.approx(1.0 + 0.015)
