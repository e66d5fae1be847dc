"""Lets a rule decide until a bandit has learnt enough, with some exploration, so that there is something to learn from."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import replace

from router.choosing.chooser import capped, drawn, with_floor
from router.plan import Action, Choice


def choice_by_rule(
    choice: Choice,
    pick: Action,
    *,
    reference: str,
    available: Sequence[bool],
    down: Collection[str] = (),
    least_probability: float,
    offload_cap: float,
    rng: random.Random,
) -> Choice:
    """The choice of a rule that picks `pick`, over the actions weighed in `choice`.

    `available`: per action, whether the rule may take it, whatever state its engine is in; those of engines that are `down`
    are taken only where no other may be.

    Every other available action has `least_probability` (0: the rule is always followed); `offload_cap` bounds the
    probability of engines other than `reference`. Where the pick is not available or was not weighed, the reference is
    taken. The log then holds exact probabilities, as off-policy evaluation needs them. Takes exactly one number from `rng`.
    """
    actions = [each.action for each in choice.weighed]
    is_reference = [action.engine == reference for action in actions]
    working = [ok and action.engine not in down for ok, action in zip(available, actions, strict=True)]
    draw = rng.random()

    def ruled(allowed: Sequence[bool]) -> tuple[int, list[float], list[float]]:
        wanted = actions.index(pick) if pick in actions else -1
        if wanted < 0 or not allowed[wanted]:
            wanted = next((i for i, ok in enumerate(allowed) if ok and is_reference[i]), allowed.index(True))
        probabilities = followed(wanted, allowed, least_probability)
        return wanted, probabilities, capped(probabilities, is_reference, allowed, offload_cap)

    possible = list(available) if any(available) else [True] * len(actions)
    wanted, probabilities, final = ruled(working if any(working) else possible)
    chosen, uncapped = drawn(final, draw), drawn(probabilities, draw)
    floored = is_reference[chosen] and not is_reference[uncapped]
    else_ = actions[drawn(ruled(possible)[2], draw)].engine if down else ""
    return replace(
        choice,
        weighed=tuple(
            replace(each, probability=p, probability_without_load=p)
            for each, p in zip(choice.weighed, final, strict=True)
        ),
        chosen=chosen,
        chosen_without_load=chosen,
        picked=wanted,
        explored=chosen != wanted and not floored,
        floored=floored,
        instead_of=else_ if else_ in down and else_ != actions[chosen].engine else "",
    )


def followed(wanted: int, allowed: Sequence[bool], least_probability: float) -> list[float]:
    """Probability per action where a rule picks the one at `wanted`, and every other allowed one has `least_probability`."""
    open_ = [i for i, ok in enumerate(allowed) if ok]
    probabilities = [0.0] * len(allowed)
    spread = with_floor([float(i == wanted) for i in open_], least_probability)
    for index, probability in zip(open_, spread, strict=True):
        probabilities[index] = probability
    return probabilities
