"""Lets a rule decide until a bandit has learnt enough, with some exploration, so that there is something to learn from."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import replace

from router.choosing.chooser import capped, drawn, standing_in, stood_in, with_floor
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
    are taken only if no other may be.

    Every other available action has `least_probability` (0: the rule is always followed); `offload_cap` bounds the
    probability of engines other than `reference`. If the pick is not available or was not weighed, the reference is taken;
    if that is down, the largest engine that works. The log then holds exact probabilities, as off-policy evaluation needs
    them. Takes exactly one number from `rng`.
    """
    actions = [each.action for each in choice.weighed]
    is_reference = [action.engine == reference for action in actions]
    working = [ok and action.engine not in down for ok, action in zip(available, actions, strict=True)]
    draw = rng.random()

    def ruled(allowed: Sequence[bool]) -> tuple[int, list[float], list[float]]:
        wanted = actions.index(pick) if pick in actions else -1
        if wanted < 0 or not allowed[wanted]:
            wanted = is_reference.index(True)
        probabilities = followed(wanted, allowed, least_probability)
        return wanted, probabilities, capped(probabilities, is_reference, allowed, offload_cap)

    possible = list(available) if any(available) else [True] * len(actions)
    allowed = working if any(working) else possible
    # The reference has its part also while it is down: who stands in for it takes that.
    wanted, probabilities, final = ruled([ok or r for ok, r in zip(allowed, is_reference, strict=True)])
    meant, chosen = drawn(final, draw), standing_in(drawn(final, draw), allowed)
    floored = is_reference[meant] and not is_reference[drawn(probabilities, draw)]
    else_ = actions[drawn(ruled(possible)[2], draw)].engine if down else ""
    return replace(
        choice,
        weighed=tuple(
            replace(each, probability=p, probability_without_load=p)
            for each, p in zip(choice.weighed, stood_in(final, allowed), strict=True)
        ),
        chosen=chosen,
        chosen_without_load=chosen,
        picked=wanted,
        explored=chosen != standing_in(wanted, allowed) and not floored,
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
