"""Does routing learn from what it sees? `python -m benchmarks.routing`, on recorded quality of two engines per request.

Every file of --data that holds prompts and the scores of two models takes part. Requests come one by one;
router.choosing.chooser decides by what an estimator expects; then outcomes are seen: of the chosen engine only (bandit), of
both in the first half and of the chosen one after (bootstrap), of both in the first half alone (static), or of both always
(full). Ours and every baseline see the same outcomes, are trained at the same times and use the same chooser.

APGR is RouteLLM's, over the second half of each stream, from the score each policy gave a request before its outcome was
known; 0.5 is chance. Regret is cumulative, at the middle of the dial, against choosing by both outcomes, as a share of what
always taking the large engine has over the same requests (all of them; the second half where the first is told). Prices and
speeds of the two engines are assumptions (benchmarks/routing/stream.py); APGR depends on them only through what was
explored. Best constant: always the engine that is better over the whole stream, which nobody knows before. Guarded kNN: the
large engine, but where the 50 nearest outcomes put the small one ahead by a standard error. Ahead of: reward of ours less
that of another policy, over all requests that were not told, with the standard error of the paired differences of requests
and the interval over orders. Transfer: trained on both outcomes of half of a file's subjects, judged on the others. Means
over orders of the stream, with their 95 % intervals. --beside: ours again with another learner of its linear half
(router.choosing.linear.LEARNERS, and ridge), for as many requests ahead of that.
"""

from __future__ import annotations

import math
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.defaults import default_chooser
from benchmarks.options import options, write
from benchmarks.recorded import NoData, some_fit
from benchmarks.routing import estimators
from benchmarks.routing.baselines import THETA, at_random, novelty, prompt_length
from benchmarks.routing.data import Recorded, load, names
from benchmarks.routing.estimators import Estimator
from benchmarks.routing.metrics import apgr, cpt
from benchmarks.routing.stream import DIAL, Feedback, play, rewards, scenes, situation
from learning.training.bandit import Row, TrainingKnobs, fresh_bandit
from router.choosing.bandit import Lesson
from router.choosing.bandit_vw import BanditSettings
from router.choosing.linear import LEARNERS, usual_learner

FEEDBACKS: tuple[Feedback, ...] = ("static", "bandit", "bootstrap", "full")
BASELINES: dict[str, Callable[[Recorded], Estimator]] = {
    "kNN 20": lambda stream: estimators.nearest(stream, 20),
    "kNN 50": lambda stream: estimators.nearest(stream, 50),
    "kNN 100": lambda stream: estimators.nearest(stream, 100),
    "ridge": estimators.ridge,
    "TF-IDF ridge": estimators.tfidf_ridge,
    "matrix factorisation": estimators.matrix_factorisation,
}
OURS = "ours"
GUARDED = "guarded kNN"
_FEWEST_SUBJECTS = 10
_STUDENT_T = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}


def main() -> None:
    """Prints the tables; with --json also writes every figure."""
    arguments = options(__doc__, data=True, cache=True)
    arguments.add_argument("--seeds", type=int, default=3, help="orders of each stream")
    arguments.add_argument("--sets", help="names of files, without their ending; all that fit if absent")
    arguments.add_argument("--limit", type=int, help="requests per set, for a quick look")
    arguments.add_argument("--feedback", default="bandit", help="of " + ", ".join(FEEDBACKS))
    arguments.add_argument("--baselines", default="kNN 50,ridge", help="of " + ", ".join(BASELINES))
    arguments.add_argument("--beside", default="", help="other learners, of " + ", ".join(LEARNERS))
    arguments.add_argument("--growth", type=float, default=1.25, help="of the log, before the next training")
    arguments.add_argument("--outcomes", type=int, default=0, help="of the measurement of cost; 0: none")
    arguments.add_argument("--drift", action="store_true")
    chosen = arguments.parse_args()
    figures: dict[str, Any] = {
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "seeds": chosen.seeds,
        "dial": DIAL,
        "sets": {},
    }
    sets = chosen.sets.split(",") if chosen.sets else names(chosen.data)
    some_fit(sets, chosen.data)
    print("*scores outside 0 to 1 are cut to it, and counted*")
    for name in sets:
        try:
            recorded = load(name, chosen.data, chosen.cache, chosen.limit)
        except NoData as absent:
            print(f"{name}: {absent}")
            continue
        figures["sets"][name] = one_set(recorded, chosen)
        write(figures, chosen.json)
        if chosen.outcomes:
            for learner in (usual_learner(), *filter(None, chosen.beside.split(","))):
                costs = figures.setdefault("cost", {})
                costs[learner] = cost(recorded, chosen.outcomes, learner)
                print(f"\n{learner}:", end="")
                print_cost(costs[learner])
            chosen.outcomes = 0
        if len(recorded.prompts) >= 5000 and chosen.drift:
            figures["drift"] = drift(recorded, min(3, chosen.seeds))
            print_drift(figures["drift"])
            chosen.drift = False
        sys.stdout.flush()
        write(figures, chosen.json)
    print_goals(figures["sets"], chosen.feedback.split(","))


def one_set(recorded: Recorded, chosen: Any) -> dict[str, Any]:
    """Every policy on one set, over `chosen.seeds` orders of it."""
    found: dict[str, list[dict[str, float]]] = {}
    gained: dict[str, list[dict[str, float]]] = {}
    small, large = recorded.quality.mean(0)
    print(
        f"\n{recorded.name}: {len(recorded.prompts)} requests, {recorded.small} {small:.3f},"
        f" {recorded.large} {large:.3f}, {recorded.cut} scores cut"
    )
    for seed in range(chosen.seeds):
        stream = recorded.shuffled(seed)
        half = len(stream.prompts) // 2
        quality, worth = stream.quality[half:], rewards(stream.quality)

        taken: dict[str, Any] = {}

        def note(policy: str, scores: Any = None, picks: Any = None, told: int = 0) -> None:
            row: dict[str, float] = {}
            taken[policy] = picks  # noqa: B023 - called within this turn only
            if scores is not None:
                of_half = scores[half:]  # noqa: B023 - called within this turn only
                row |= {"apgr": apgr(of_half, quality), "cpt80": cpt(of_half, quality, 0.8)}  # noqa: B023
            if picks is not None:
                row |= _played(picks[told:], stream.quality[told:], worth[told:])  # noqa: B023
            found.setdefault(policy, []).append(row)

        n = len(stream.prompts)
        note("always small", picks=np.zeros(n, int))
        note("always large", picks=np.ones(n, int))
        note("best constant", picks=np.full(n, worth.mean(0).argmax()))
        coin = at_random(stream, seed)
        note("random", coin, (coin < 0.5).astype(int))
        note("prompt length", prompt_length(stream))
        new = novelty(stream)
        note("novelty (few_shot)", new, (new > 1 - THETA).astype(int))
        makers = {n: BASELINES[n] for n in chosen.baselines.split(",") if n}
        made = {name: make(stream) for name, make in makers.items()}
        with_others = ours(stream, chosen.beside)
        made |= with_others
        made[GUARDED] = estimators.nearest(stream, 50)
        for feedback in chosen.feedback.split(","):
            told = half if feedback in ("static", "bootstrap") else 0
            for name, estimator in made.items():
                guarded = name == GUARDED
                run = play(stream, estimator, feedback, seed, growth=chosen.growth, guarded=guarded)
                note(f"{feedback}: {name}", run.scores, run.picks, told)
            others = [GUARDED, *(name for name in with_others if name != OURS)]
            for other in ("best constant", *(f"{feedback}: {each}" for each in others)):
                row = ahead(worth[told:], taken[f"{feedback}: {OURS}"][told:], taken[other][told:])
                gained.setdefault(f"{feedback}: {OURS} ahead of {other.split(': ')[-1]}", []).append(row)
        note("oracle", quality_gap(stream), worth.argmax(1))
        print(".", end="", flush=True)
    print()
    summed = {policy: _means(rows) for policy, rows in found.items()}
    print_set(summed)
    ahead_of = {pair: _means(rows) for pair, rows in gained.items()}
    print_ahead(ahead_of)
    moved = transfer(recorded, chosen.baselines.split(","), chosen.beside) if _subjects(recorded) else {}
    print_transfer(moved)
    return {
        "requests": len(recorded.prompts),
        "cut": recorded.cut,
        "quality": [float(q) for q in recorded.quality.mean(0)],
        "policies": summed,
        "ahead": ahead_of,
        "transfer": moved,
        "per_seed": found,
    }


def ours(stream: Recorded, beside: str) -> dict[str, Estimator]:
    """The gateway's bandit, and again with each learner of `beside`, comma-separated."""
    seen = scenes(stream)
    found: dict[str, Estimator] = {OURS: estimators.Ours(stream, seen)}
    for learner in filter(None, beside.split(",")):
        found[f"{OURS}, {learner}"] = estimators.Ours(stream, seen, learner=learner)
    return found


def ahead(worth: Any, picks: Any, others: Any) -> dict[str, float]:
    """Reward of `picks` less that of `others`, summed over requests, and its standard error from the paired differences."""
    rows = np.arange(len(picks))
    difference = worth[rows, picks] - worth[rows, others]
    error = float(difference.std(ddof=1)) * math.sqrt(len(rows))
    return {"ahead": float(difference.sum()), "standard_error": error}


def quality_gap(stream: Recorded) -> Any:
    """[n]: how much better the large engine was."""
    return stream.quality[:, 1] - stream.quality[:, 0]


def _played(picks: Any, quality: Any, worth: Any) -> dict[str, float]:
    rows = np.arange(len(picks))
    regret = float((worth.max(1) - worth[rows, picks]).sum())
    return {
        "quality": float(quality[rows, picks].mean()),
        "large": float(picks.mean()),
        "regret": regret,
        "regret_share": regret / max(1e-9, float((worth.max(1) - worth[:, 1]).sum())),
    }


def transfer(
    recorded: Recorded, baselines: list[str], beside: str = "", splits: int = 5
) -> dict[str, dict[str, float]]:
    """APGR on half of the subjects, trained on both outcomes of the other half."""
    subjects, found = _subjects(recorded), {}
    for split in range(splits):
        order = np.random.default_rng(split).permutation(len(subjects))
        learnt = {subjects[i] for i in order[: len(subjects) // 2]}
        known = np.array([s in learnt for s in recorded.subjects])
        rng = np.random.default_rng(split)
        # In no order of subjects: what is held out within training is to be like the rest of it.
        parts = [rng.permutation(np.flatnonzero(part)) for part in (known, ~known)]
        stream = recorded.ordered(np.concatenate(parts))
        told, quality = len(parts[0]), stream.quality[len(parts[0]) :]
        seen = np.zeros((len(stream.prompts), 2), bool)
        seen[:told] = True
        makers = {name: BASELINES[name](stream) for name in baselines if name}
        makers |= ours(stream, beside)
        found.setdefault("prompt length", []).append({"apgr": apgr(prompt_length(stream)[told:], quality)})
        for name, estimator in makers.items():
            expected = estimator(seen, np.arange(told, len(stream.prompts))).quality
            gap = expected[:, 1] - expected[:, 0]
            found.setdefault(name, []).append({"apgr": apgr(gap, quality)})
    return {name: _means(rows) for name, rows in found.items()}


def _subjects(recorded: Recorded) -> list[str]:
    """The names, sorted; none where there are too few to split."""
    found = sorted(set(recorded.subjects))
    return found if len(found) >= _FEWEST_SUBJECTS else []


def drift(recorded: Recorded, seeds: int) -> dict[str, Any]:
    """The engines swap their outcomes half-way: how long until the router follows, with old rows fading and without."""
    found: dict[str, Any] = {}
    for policy, half_life in (("old rows fade", 500.0), ("no decay", math.inf)):
        shares, waits = [], []
        for seed in range(seeds):
            stream = recorded.shuffled(seed)
            half = len(stream.prompts) // 2
            swapped = stream.quality.copy()
            swapped[half:] = swapped[half:, ::-1]
            changed = replace(stream, quality=swapped)
            ours = estimators.Ours(changed, scenes(changed), half_life)
            run = play(changed, ours, "bandit", seed, dial=0.9)
            right = np.zeros(len(swapped))
            right[half:] = (run.picks[half:] == swapped[half:].mean(0).argmax()).astype(float)
            right[:half] = (run.picks[:half] == swapped[:half].mean(0).argmax()).astype(float)
            shares.append([float(right[i : i + 250].mean()) for i in range(half - 500, half + 2500, 250)])
            rolling = np.convolve(right[half:], np.ones(200) / 200, "valid")
            reached = np.flatnonzero(rolling >= 0.5)
            waits.append(float(reached[0] + 200) if len(reached) else float(len(right) - half))
        found[policy] = {
            "share_on_the_better_engine": [float(s) for s in np.mean(shares, 0)],
            "requests_until_half_went_to_it": statistics.fmean(waits),
        }
    return found


def cost(recorded: Recorded, outcomes: int, learner: str, decisions: int = 2000) -> dict[str, float]:
    """CPU of one decision, on one thread, after so many outcomes of each engine in turn: features, estimate and choice."""
    rng = np.random.default_rng(0)
    all_scenes = scenes(recorded)
    rows = []
    for at in range(outcomes):
        which = at % len(all_scenes)
        # The same questions again, each a little different: a graph of equal points would be quicker to search.
        vector = recorded.vectors[which] + rng.normal(0, 0.02, recorded.vectors.shape[1]).astype(np.float32)
        scene = replace(all_scenes[which], vector=vector / np.linalg.norm(vector))
        engine = int(rng.integers(2))
        rows.append(Row(Lesson(scene, {engine: float(recorded.quality[which, engine])}), float(at)))
    began = time.thread_time()
    settings, knobs = BanditSettings(learner=learner), TrainingKnobs(half_life_s=math.inf)
    bandit = fresh_bandit(rows, settings, knobs, now_s=float(outcomes))
    trained_s = time.thread_time() - began
    draws, choose = random.Random(0), default_chooser().choose
    asked = [situation(recorded, i % len(recorded.prompts)) for i in range(decisions)]
    for each in asked[:200]:
        choose(each, bandit, draws)
    # In batches: on a machine that others use too, the quickest says what it costs, the median what it cost here.
    batches = []
    for start in range(0, decisions, decisions // 20):
        part = asked[start : start + decisions // 20]
        cpu = time.thread_time()
        for each in part:
            choose(each, bandit, draws)
        batches.append((time.thread_time() - cpu) / len(part))
    return {
        "outcomes": float(outcomes),
        "decision_cpu_ms": min(batches) * 1e3,
        "decision_cpu_ms_median": statistics.median(batches) * 1e3,
        "training_cpu_ms_per_outcome": trained_s / outcomes * 1e3,
        "artifact_bytes": float(len(bandit.save())),
    }


def print_set(summed: dict[str, dict[str, float]]) -> None:
    """One table."""
    print("| policy | APGR | CPT(80 %) | quality | to the large | regret | of always large's |")
    print("|---|---|---|---|---|---|---|")
    for policy, row in summed.items():
        cells = [_with_interval(row, "apgr", 3), _shown(row, "cpt80", 2), _shown(row, "quality", 3)]
        cells += [_shown(row, "large", 2), _shown(row, "regret", 0), _with_interval(row, "regret_share", 3)]
        print(f"| {policy} | {' | '.join(cells)} |")


def print_ahead(ahead_of: dict[str, dict[str, float]]) -> None:
    """One line per pair of policies."""
    for pair, row in ahead_of.items():
        reached = row["ahead"] >= -row["standard_error"]
        kept = "ahead" if row["ahead"] > 0 else "within a standard error" if reached else "BELOW"
        print(f"{pair}: {_with_interval(row, 'ahead', 1)}, s.e. {row['standard_error']:.1f}: {kept}")


def print_goals(sets: dict[str, Any], feedbacks: list[str]) -> None:
    """One line per set: reward beside the plain policies, and transfer beside the best baseline; both with their goals."""
    print("\ngoal: on every set at least best constant and guarded kNN less one s.e., above both on half")
    print("| set | feedback | ahead of best constant | s.e. | ahead of guarded kNN | s.e. | reached |")
    print("|---|---|---|---|---|---|---|")
    for name, found in sets.items():
        for feedback in feedbacks:
            pairs = [found["ahead"][f"{feedback}: {OURS} ahead of {o}"] for o in ("best constant", GUARDED)]
            cells = [f"{_with_interval(p, 'ahead', 1)} | {p['standard_error']:.1f}" for p in pairs]
            above = all(p["ahead"] > 0 for p in pairs)
            kept = all(p["ahead"] >= -p["standard_error"] for p in pairs)
            reached = "above both" if above else "yes" if kept else "no"
            print(f"| {name} | {feedback} | {' | '.join(cells)} | {reached} |")
    print(
        "\ngoal: transfer to subjects never seen at least the best kNN's, and 0.64 (APGR; any constant: 0.5)"
    )
    for name, found in sets.items():
        if found["transfer"]:
            ours = found["transfer"][OURS]["apgr"]
            nearest = max((r["apgr"] for p, r in found["transfer"].items() if "kNN" in p), default=math.nan)
            reached = f"kNN {'yes' if ours >= nearest else 'no'}, 0.64 {'yes' if ours >= 0.64 else 'no'}"
            cells = [f"{p} {_with_interval(row, 'apgr', 3)}" for p, row in found["transfer"].items()]
            print(f"| {name} | {' | '.join(cells)} | {reached} |")


def print_transfer(moved: dict[str, dict[str, float]]) -> None:
    """One line per policy."""
    if moved:
        print("\ntransfer to subjects never seen, APGR:")
    for policy, row in moved.items():
        print(f"| {policy} | {_with_interval(row, 'apgr', 3)} |")


def print_cost(figures: dict[str, float]) -> None:
    """One line."""
    print(
        f"\none decision after {figures['outcomes']:.0f} outcomes: {figures['decision_cpu_ms']:.3f} ms CPU"
        f" (median batch {figures['decision_cpu_ms_median']:.3f});"
        f" training {figures['training_cpu_ms_per_outcome']:.2f} ms per outcome;"
        f" artifact {figures['artifact_bytes'] / 2**20:.1f} MiB"
    )


def print_drift(figures: dict[str, Any]) -> None:
    """Share of requests on the better engine around the swap."""
    print(
        "\nswap of outcomes half-way (dial 0.9): share on the better engine, 250 requests at a time, two before it"
    )
    for policy, row in figures.items():
        shares = " ".join(f"{s:4.2f}" for s in row["share_on_the_better_engine"])
        print(f"{policy:14} {shares}   half of them after {row['requests_until_half_went_to_it']:.0f}")


def _shown(row: dict[str, float], name: str, digits: int) -> str:
    return f"{row[name]:.{digits}f}" if name in row else ""


def _with_interval(row: dict[str, float], name: str, digits: int) -> str:
    return f"{row[name]:.{digits}f} ± {row[name + '_95']:.{digits}f}" if name in row else ""


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    """Means by name, and half the width of their 95 % intervals as NAME_95 (Student's t)."""
    found = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    for name in list(found):
        values = [row[name] for row in rows]
        spread = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
        found[f"{name}_95"] = _STUDENT_T.get(len(values), 1.96) * spread
    return found


if __name__ == "__main__":
    main()
