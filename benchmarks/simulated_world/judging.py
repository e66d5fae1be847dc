"""How well the simulated judge judges: its verdicts on the understudy's answers against what the world knows to be true.

    python -m benchmarks.simulated_world.judging --length 2000

Both simulated minds answer the same stream; the judge compares, in both orders, with each of its stated ways to err on and
off and with one to eight votes per order. The truth is World.grade of the two answers. Says nothing about a real judge.
"""

from __future__ import annotations

import json
from collections import Counter
from statistics import mean

from benchmarks.options import options, write
from learning.outcomes.judge import (
    Judgement,
    judge_prompt,
    judgement,
    position_bias,
    read_verdict,
    vote,
    win_rate,
)
from simulation.judge import Leniency, verdict
from simulation.minds import reply
from simulation.stream import Stream
from simulation.world import World

Messages = list[dict[str, str]]


def judged(
    world: World, asked: Messages, ours: str, reference: str, lean: Leniency, samples: int
) -> Judgement:
    """Both orders, `samples` votes each."""
    votes = []
    for number in range(2 * samples):
        ours_first = number % 2 == 0
        first, second = (ours, reference) if ours_first else (reference, ours)
        prompt = judge_prompt(asked, first, second, reading=number // 2 + 1)
        score = read_verdict(verdict(world, world.seed, prompt.messages, leniency=lean), prompt.code)
        assert score is not None
        votes.append(vote(score, ours_first=ours_first))
    made = judgement(votes)
    assert made is not None
    return made


def figures(world: World, length: int, seed: int, lean: Leniency, samples: int = 1) -> dict[str, object]:
    """Of one judge on one stream."""
    found: Counter[str] = Counter()
    pairs: list[tuple[float, Judgement]] = []
    for ask in Stream(world, length, seed=seed):
        asked = list(ask.messages)
        ours, reference = (reply(world, role, world.seed, asked) for role in ("understudy", "lead"))
        behind = world.grade(asked, reference) - world.grade(asked, ours)
        made = judged(world, asked, ours, reference, lean, samples)
        found[f"{'worse' if behind > 0 else 'even'}: {made.result}"] += 1
        pairs.append((behind, made))
    every = [made for _, made in pairs]
    return {
        "results": dict(sorted(found.items())),
        "win_rate": round(win_rate(every) or 0.0, 3),
        "position_bias": round(position_bias(every) or 0.0, 3),
        "quality_judged": round(mean(made.quality for made in every), 3),
        "quality_true": round(mean(min(1.0, 1.0 - behind) for behind, _ in pairs), 3),
        "quality_judged_of_even_pairs": round(mean(m.quality for b, m in pairs if b <= 0), 3),
    }


def main() -> None:
    """Prints a line of figures per judge; with --json also writes them."""
    parser = options(__doc__)
    parser.add_argument("--length", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args()
    world = World(chosen.seed)
    judges = {
        "as it is": Leniency(),
        "no noise": Leniency(noise=0.0),
        "no preference for a place": Leniency(first=0.0),
        "neither": Leniency(noise=0.0, first=0.0),
    }
    rows = {name: figures(world, chosen.length, chosen.seed, lean) for name, lean in judges.items()}
    for samples in (2, 4, 8):
        rows[f"as it is, {samples} votes per order"] = figures(
            world, chosen.length, chosen.seed, Leniency(), samples
        )
    for name, row in rows.items():
        print(name, json.dumps(row))
    write(rows, chosen.json)


if __name__ == "__main__":
    main()
