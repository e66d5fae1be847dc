"""Until a bandit has learnt enough a rule decides, now and then against itself: so there is something to learn from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from router.choosing.chooser import capped, drawn, with_floor
from router.plan import Action, Choice


def following(
    choice: Choice,
    pick: Action,
    *,
    reference: str,
    available: Sequence[bool],
    least_probability: float,
    offload_cap: float,
    rng: random.Random,
) -> Choice:
    """The choice of a rule that picks `pick`, over the actions weighed in `choice`.

    Every other available action has `least_probability` (0: the rule is followed always); `offload_cap` bounds what goes to
    engines other than `reference`. An action that is not available or was not weighed gives way to the reference. The log
    then holds exact probabilities, as off-policy evaluation needs them. Exactly one number is taken from `rng`.
    """
    actions = [each.action for each in choice.weighed]
    is_reference = [action.engine == reference for action in actions]
    allowed = list(available) if any(available) else [True] * len(actions)
    wanted = actions.index(pick) if pick in actions else -1
    if wanted < 0 or not allowed[wanted]:
        wanted = next((i for i, ok in enumerate(allowed) if ok and is_reference[i]), allowed.index(True))
    open_ = [i for i, ok in enumerate(allowed) if ok]
    spread = with_floor([float(i == wanted) for i in open_], least_probability)
    probabilities = [0.0] * len(actions)
    for index, probability in zip(open_, spread, strict=True):
        probabilities[index] = probability
    final = capped(probabilities, is_reference, allowed, offload_cap)
    draw = rng.random()
    chosen, uncapped = drawn(final, draw), drawn(probabilities, draw)
    floored = is_reference[chosen] and not is_reference[uncapped]
    return replace(
        choice,
        weighed=tuple(
            replace(each, probability=p, probability_without_load=p)
            for each, p in zip(choice.weighed, final, strict=True)
        ),
        chosen=chosen,
        chosen_without_load=chosen,
        explored=chosen != wanted and not floored,
        floored=floored,
    )
