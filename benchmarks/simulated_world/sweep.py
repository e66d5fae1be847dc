"""How far does similarity alone go in the simulated world? Replays the stream against few-shot by novelty, knob by knob.

    python -m benchmarks.simulated_world.sweep --requests 2400 --seed 7 [--world-seed 7]

One request at a time, in process: exact repeats are replayed, the nearest remembered questions (same system prompt) come
from exact search over the real embedder's vectors, at least m of them within theta make the understudy answer with at
most k of them as examples, otherwise the lead answers and is remembered.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import options, write
from benchmarks.tables import markdown
from router import digest
from router.embedding.embedder import Embedder
from router.wording.lexical_things import Things, about_other_things, things
from simulation.minds import reply
from simulation.stream import Ask, Stream
from simulation.world import World

ENGINE_SEED = 7
NEAR_ENOUGH = (0.7, 0.8, 0.85, 0.9, 0.95)


@dataclass
class Tally:
    """What came of one setting."""

    requests: int = 0
    hits: int = 0
    offloaded: int = 0
    grade: float = 0.0
    offloaded_grade: float = 0.0
    alone_grade: float = 0.0
    held: int = 0
    """Offloaded requests whose examples hold the fact."""


def embedded_text(ask: Ask) -> str:
    """What the gateway embeds for a request, and remembers as an example's question."""
    return digest.question(ask.messages)


def replay(
    world: World,
    asks: list[Ask],
    vectors: np.ndarray,
    theta: float,
    m: int,
    k: int,
    lead_grades: list[float],
    named: list[Things] | None = None,
) -> Tally:
    """One pass of the stream at one setting."""
    tally = Tally()
    seen: dict[str, float] = {}
    banks: dict[str, list[int]] = {}
    answers: dict[int, str] = {}
    for i, ask in enumerate(asks):
        tally.requests += 1
        key = repr(ask.messages)
        if key in seen:
            tally.hits += 1
            tally.grade += seen[key]
            continue
        scope = ask.messages[0]["content"] if ask.messages[0]["role"] == "system" else ""
        bank = banks.setdefault(scope, [])
        near: list[int] = []
        if bank:
            similarity = vectors[bank] @ vectors[i]
            order = np.argsort(-similarity)[:32]
            near = [bank[j] for j in order if similarity[j] >= theta]
            if named is not None:
                near = [j for j in near if not about_other_things(named[i], named[j])]
        if len(near) >= m:
            examples: list[dict[str, str]] = []
            for j in reversed(near[:k]):
                examples += [
                    {"role": "user", "content": embedded_text(asks[j])},
                    {"role": "assistant", "content": answers[j]},
                ]
            system = 1 if scope else 0
            messages: list[dict[str, Any]] = [*ask.messages[:system], *examples, *ask.messages[system:]]
            grade = world.grade(ask.messages, reply(world, "understudy", ENGINE_SEED, messages))
            tally.offloaded += 1
            tally.offloaded_grade += grade
            tally.held += bool(ask.facts) and all(
                any(f in asks[j].facts for j in near[:k]) for f in ask.facts
            )
            tally.alone_grade += world.grade(
                ask.messages, reply(world, "understudy", ENGINE_SEED, ask.messages)
            )
        else:
            answers[i] = reply(world, "lead", ENGINE_SEED, ask.messages)
            grade = lead_grades[i]
            bank.append(i)
        seen[key] = grade
        tally.grade += grade
    return tally


def look_alikes(asks: list[Ask], vectors: np.ndarray) -> list[dict[str, Any]]:
    """Similarity of paraphrases (same fact, other words) beside look-alikes (same relation, other name), over the stream."""
    single = [
        i
        for i, a in enumerate(asks)
        if len(a.facts) == 1 and len([m for m in a.messages if m["role"] == "user"]) == 1
    ]
    v = vectors[single]
    same, kin, near = [], [], []
    similarity = v @ v.T
    for x in range(len(single)):
        for y in range(x):
            f, g = asks[single[x]].facts[0], asks[single[y]].facts[0]
            if asks[single[x]].question == asks[single[y]].question:
                continue
            if f is g:
                same.append(similarity[x, y])
            elif f.relation is g.relation and f.kind == g.kind:
                (near if f.family == g.family else kin).append(similarity[x, y])
    found = []
    for name, values in (
        ("same fact, other words", same),
        ("other name, same relation", kin),
        ("near-identical name", near),
    ):
        p10, median, p90 = np.percentile(values, [10, 50, 90]).tolist()
        shares = {str(theta): float(np.mean(np.array(values) >= theta)) for theta in NEAR_ENOUGH}
        found.append(
            {"pairs": name, "n": len(values), "p10": p10, "median": median, "p90": p90, "shares": shares}
        )
    return found


def shown(row: dict[str, Any]) -> list[str]:
    """One row of `look_alikes` as cells."""
    percentiles = [f"{row[name]:.2f}" for name in ("p10", "median", "p90")]
    return [row["pairs"], str(row["n"]), *percentiles, *(f"{share:.0%}" for share in row["shares"].values())]


def summed(tally: Tally, theta: float, m: int, k: int) -> dict[str, Any]:
    """What is reported of one setting."""
    n, offloaded = tally.requests, max(1, tally.offloaded)
    return {
        "theta": theta,
        "m": m,
        "k": k,
        "hits": tally.hits / n,
        "offloaded": tally.offloaded / n,
        "exact hits apart": tally.offloaded / (n - tally.hits),
        "quality": tally.grade / n,
        "of offloaded": tally.offloaded_grade / offloaded,
        "without examples": tally.alone_grade / offloaded,
        "fact held": tally.held / offloaded,
    }


def main() -> None:
    """Prints both tables; with --json also writes the figures."""
    parser = options(__doc__)
    parser.add_argument("--requests", type=int, default=4800)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--world-seed", type=int, default=7)
    parser.add_argument("--k", type=int, nargs="*", default=[1, 5])
    parser.add_argument("--m", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument(
        "--theta",
        type=float,
        nargs="*",
        default=[0.6, 0.65, 0.7, 0.75, 0.8, 0.825, 0.85, 0.875, 0.9, 0.925, 0.95],
    )
    parser.add_argument("--same-names", action="store_true", help="neighbours must name the same things")
    chosen = parser.parse_args()
    world = World(chosen.world_seed)
    asks = list(Stream(world, chosen.requests, seed=chosen.seed))
    with tempfile.TemporaryDirectory() as folder:
        embedder = Embedder.open("package", Path(folder), cache_entries=50_000)
        vectors = np.stack([embedder.embed_blocking(embedded_text(a)) for a in asks])
        embedder.close()
    pairs = look_alikes(asks, vectors)
    head = ["pairs", "n", "p10", "median", "p90", *(f">={theta:.2f}" for theta in NEAR_ENOUGH)]
    print(markdown(head, map(shown, pairs)))
    named = [things(embedded_text(a)) for a in asks] if chosen.same_names else None
    lead = [world.grade(a.messages, reply(world, "lead", ENGINE_SEED, a.messages)) for a in asks]
    small = [world.grade(a.messages, reply(world, "understudy", ENGINE_SEED, a.messages)) for a in asks]
    print(f"\nlead alone {np.mean(lead):.3f}, understudy alone {np.mean(small):.3f}\n")
    settings = []
    for k, m, theta in itertools.product(chosen.k, chosen.m, chosen.theta):
        settings.append(summed(replay(world, asks, vectors, theta, m, k, lead, named), theta, m, k))
        print(f"  theta {theta:g}, m {m}, k {k}", file=sys.stderr)
    formats = ["", "", "", ".1%", ".1%", ".1%", ".3f", ".3f", ".3f", ".1%"]
    rows = [[f"{v:{how}}" for v, how in zip(row.values(), formats, strict=True)] for row in settings]
    print(markdown(list(settings[0]), rows))
    write({"pairs": pairs, "settings": settings}, chosen.json)


if __name__ == "__main__":
    main()
