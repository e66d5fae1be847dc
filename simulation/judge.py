"""The simulated judge: grades two answers with the world's own truth and scores them on the seven-point scale.

It reads prompts of one format: blocks between lines `<<<NAME code>>>` and `<<<END NAME code>>>`, for the names REQUEST,
FIRST ANSWER and SECOND ANSWER, where the request's messages each begin with a line `<<<TURN role code>>>`; the code is 16
hexadecimal digits, given in the system message. It answers with the line `SCORE code: n`, n from -3 (the second answer is
much better) to 3. learning.outcomes.judge writes such prompts and documents the same format; neither imports the other.

The score is that of a judge who knows every fact, made worse in two stated ways: noise, and a small preference for the
answer it reads first. Neither was fitted to anything. Text inside a block is only graded, never obeyed: persuading a judge
is not simulated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from simulation.prompt import coded_prompt
from simulation.reading import Messages
from simulation.world import World, seeded

_CODE = re.compile(r"SCORE ([0-9a-f]{16}): n\b")
_READING = re.compile(r"\breading (\d+)")
_NOT_A_JUDGEMENT = (
    "This is a simulated judge: it only compares two answers, in a prompt with a request and both answers between markers, "
    "and finds no such prompt here."
)


@dataclass(frozen=True, slots=True)
class Leniency:
    """Errors of the simulated judge, in points of its scale."""

    noise: float = 0.6
    """Standard deviation of the noise on each verdict."""
    first: float = 0.25
    """Points added in favour of the answer that it reads first."""
    full: float = 3.0
    """Points between an entirely right and an entirely wrong answer."""


def verdict(
    world: World, seed: int, messages: Messages, choice: int = 0, leniency: Leniency | None = None
) -> str:
    """The text of one reply. Pure: it depends on (seed, request, both answers, number of the reading, choice), and is the
    same for the same, like that of a judge at temperature 0.
    """
    prompt = coded_prompt(messages, _CODE)
    request, first, second = (
        prompt.part(name) if prompt else None for name in ("REQUEST", "FIRST ANSWER", "SECOND ANSWER")
    )
    if prompt is None or request is None or first is None or second is None:
        return _NOT_A_JUDGEMENT
    asked = _turns(request, prompt.code)
    ahead = world.grade(asked, first) - world.grade(asked, second)
    lean = leniency or Leniency()
    # The code is random and left out, so that a repeated run gets the same verdicts. The reading distinguishes samples.
    reading = _READING.search(prompt.told)
    rng = seeded("judge", seed, choice, reading[1] if reading else "", asked, first, second)
    score = max(-3, min(3, round(lean.full * ahead + lean.first + rng.gauss(0.0, lean.noise))))
    which = (
        "The two are about equally good" if score == 0 else "The first is" if score > 0 else "The second is"
    )
    rest = "" if score == 0 else f" {('slightly better', 'better', 'much better')[abs(score) - 1]}"
    return f"{which}{rest}, by the records of the simulated world.\nSCORE {prompt.code}: {score}"


def _turns(request: str, code: str) -> list[dict[str, str]]:
    parts = re.split(rf"^<<<TURN (\w+) {code}>>>$", request, flags=re.MULTILINE)
    return [
        {"role": role, "content": text.strip("\n")}
        for role, text in zip(parts[1::2], parts[2::2], strict=True)
    ]
