"""Prices of answers: dollars per million tokens, per model or for all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Price:
    """Dollars per million tokens, of prompts and answers; `model` "" is the price of every model not named."""

    model: str
    per_million_in_usd: float
    per_million_out_usd: float


def parse_price(text: str) -> Price:
    """Reads `IN,OUT` or `MODEL=IN,OUT`. Raises ValueError naming what would be right."""
    model, equals, numbers = text.rpartition("=")
    try:
        per_in, per_out = (float(part) for part in numbers.split(","))
    except ValueError:
        per_in = per_out = -1.0
    if per_in < 0 or per_out < 0:
        raise ValueError(
            f"{text!r} is not a price: write IN,OUT or MODEL=IN,OUT in dollars per million tokens"
        )
    return Price(model.strip() if equals else "", per_in, per_out)


def price_of(model: str, prices: tuple[Price, ...]) -> Price | None:
    """The price of a model: its own, else the one for all, else None."""
    named = {price.model: price for price in prices}
    return named.get(model) or named.get("")
