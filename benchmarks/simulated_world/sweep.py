"""How far does similarity alone go in the simulated world? Replays the stream against few-shot by novelty, knob by knob.

    python benchmarks/simulated_sweep.py --requests 2400 --seed 7 [--world-seed 7]

One request at a time, in process: exact repeats are replayed, the nearest remembered questions (same system prompt) come
from exact search over the real embedder's vectors, at least m of them within theta make the understudy answer with at
most k of them as examples, otherwise the lead answers and is remembered. Prints one Markdown row per setting.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engines.simulated_minds import reply
from engines.simulated_stream import Ask, Stream
from engines.simulated_world import World
from router import digest
from router.embedder import Embedder
from router.lexical_things import Things, about_other_things, things

ENGINE_SEED = 7


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


def look_alike_report(world: World, asks: list[Ask], vectors: np.ndarray) -> None:
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
    for name, values in (
        ("same fact, other words", same),
        ("other name, same relation", kin),
        ("near-identical name", near),
    ):
        a = np.array(values)
        share = {t: float((a >= t).mean()) for t in (0.7, 0.8, 0.85, 0.9, 0.95)}
        print(
            f"| {name} | {len(a)} | {np.percentile(a, 10):.2f} | {np.median(a):.2f} | {np.percentile(a, 90):.2f} | "
            + " | ".join(f"{s:.0%}" for s in share.values())
            + " |"
        )


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
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
    args = parser.parse_args()
    world = World(args.world_seed)
    asks = list(Stream(world, args.requests, seed=args.seed))
    with tempfile.TemporaryDirectory() as folder:
        embedder = Embedder.open("package", Path(folder), cache_entries=50_000)
        vectors = np.stack([embedder.embed_blocking(embedded_text(a)) for a in asks])
        embedder.close()
    print("| pairs | n | p10 | median | p90 | >=.70 | >=.80 | >=.85 | >=.90 | >=.95 |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    look_alike_report(world, asks, vectors)
    named = [things(embedded_text(a)) for a in asks] if args.same_names else None
    lead = [world.grade(a.messages, reply(world, "lead", ENGINE_SEED, a.messages)) for a in asks]
    small = [world.grade(a.messages, reply(world, "understudy", ENGINE_SEED, a.messages)) for a in asks]
    print(f"\nlead alone {np.mean(lead):.3f}, understudy alone {np.mean(small):.3f}\n")
    print(
        "| theta | m | k | hits | offloaded | exact hits apart | quality | of offloaded | without examples | fact held |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for k in args.k:
        for m in args.m:
            for theta in args.theta:
                t = replay(world, asks, vectors, theta, m, k, lead, named)
                n, o = t.requests, max(1, t.offloaded)
                shares = [t.hits / n, t.offloaded / n, t.offloaded / (n - t.hits)]
                grades = [t.grade / n, t.offloaded_grade / o, t.alone_grade / o]
                cells = [
                    str(theta),
                    str(m),
                    str(k),
                    *(f"{x:.1%}" for x in shares),
                    *(f"{x:.3f}" for x in grades),
                ]
                print("| " + " | ".join([*cells, f"{t.held / o:.1%}"]) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
