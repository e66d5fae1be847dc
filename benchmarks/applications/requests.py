"""Single calls that come beside applications: of a conversation, and to a popular application."""

from __future__ import annotations

import random

from loadtest.applications.shapes import Call, words


def chat(key: str, chance: random.Random) -> Call:
    """One message of a conversation: lengths as ShareGPT's (mean 161 tokens asked and 338 answered; vLLM, SOSP 2023)."""
    asked = min(1_024, max(4, round(chance.lognormvariate(4.3, 1.25))))
    answered = min(1_024, max(4, round(chance.lognormvariate(5.4, 0.95))))
    return Call("chat", words(key, asked), answered)


def popular(application: int, key: str, chance: random.Random) -> Call:
    """One request to a popular application: its long prompt, and a question (Parrot, section 8.3: 6,000 tokens; 180 to
    800 out)."""
    return Call(
        "popular",
        words(key, chance.randint(50, 300)),
        chance.randint(180, 800),
        words(f"popular/{application}", 6_000),
    )
