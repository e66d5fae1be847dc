"""SLOs and prices as they are written on the command line."""

from __future__ import annotations

import pytest

from loadtest.prices import Price, parse_price, price_of
from loadtest.slo import Slo, parse_slo


def test_an_slo_is_read_with_its_units() -> None:
    assert parse_slo("ttft<=500ms, latency<=2s,tpot<50ms") == Slo(2.0, 0.5, 0.05)
    assert str(parse_slo("ttft<=500ms")) == "ttft <= 500 ms"


@pytest.mark.parametrize("text", ["", "ttft", "ttft>=1s", "p99<=1s", "ttft<=1", "ttft<=1m"])
def test_an_slo_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not a limit"):
        parse_slo(text)


def test_a_model_has_its_own_price_or_the_one_for_all() -> None:
    prices = (parse_price("big=3,15"), parse_price("0.1,0.4"))
    assert price_of("big", prices) == Price("big", 3.0, 15.0)
    assert price_of("other", prices) == Price("", 0.1, 0.4)
    assert price_of("other", prices[:1]) is None


@pytest.mark.parametrize("text", ["", "1", "a=1", "1,x", "-1,2"])
def test_a_price_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not a price"):
        parse_price(text)
