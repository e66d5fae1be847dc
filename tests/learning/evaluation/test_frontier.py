from __future__ import annotations

import json

import numpy as np
import pytest

from learning.evaluation.frontier import cautions, frontier, table
from learning.evaluation.logged import logged
from learning.evaluation.target_policies import always, as_logged, expected
from tests.learning.training.worlds import logged_world, met

POLICIES = (as_logged(), always("small"), always("large"), expected())


def test_a_policy_has_a_point_per_dial_only_if_the_dial_changes_it() -> None:
    data = frontier(logged_world(), POLICIES, (0.0, 1.0), resamples=100)
    assert [(point["policy"], point["preference"]) for point in data["points"]] == [
        ("logged", None),
        ("always:small", None),
        ("always:large", None),
        ("expected", 0.0),
        ("expected", 1.0),
    ]
    assert set(data["points"][0]["rewards"]) == {"0.0", "1.0"}
    assert set(data["points"][3]["rewards"]) == {"0.0"}


def test_the_points_say_what_each_policy_costs_and_brings() -> None:
    data = frontier(logged_world(2000), POLICIES, (0.0, 1.0), resamples=100)
    small, large = data["points"][1], data["points"][2]
    assert (small["offloaded"], large["offloaded"]) == (1.0, 0.0)
    assert small["cost_usd"]["dr"]["value"] == pytest.approx(0.1, abs=0.01)
    assert large["cost_usd"]["snips"]["value"] == pytest.approx(1.0)
    assert small["quality"]["dr"]["high"] < large["quality"]["dr"]["low"] + 1e-9
    assert data["points"][3]["cost_usd"]["dr"]["value"] < data["points"][4]["cost_usd"]["dr"]["value"]


def test_everything_can_be_written_as_strict_json_even_where_nothing_is_known() -> None:
    nothing = logged([met(n, 0) for n in range(5)])
    for found in (logged_world(30), nothing):
        json.dumps(frontier(found, POLICIES, (0.5,), resamples=100), allow_nan=False)


def test_the_table_holds_every_policy_and_warns_of_what_the_log_cannot_tell() -> None:
    never_large = [met(n, n % 2, {"quality": 0.5}, probabilities=(0.5, 0.5, 0.0)) for n in range(60)]
    data = frontier(logged(never_large), POLICIES, (0.5,), resamples=100)
    text = table(data)
    assert all(policy.name in text for policy in POLICIES)
    assert "!" in text
    assert any("no chance" in line for line in cautions(data))


@pytest.mark.parametrize("preferences", [(), (1.5,), (-0.1, 0.5), (np.nan,)])
def test_dials_that_are_none_are_refused(preferences: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="preferences"):
        frontier(logged_world(5), POLICIES, preferences)
