"""Describes what is proven of the smaller engines for a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Action:
    """One way to answer: an engine, with the chosen examples or without any."""

    engine: str
    with_examples: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """The proof of one action in the region of one request."""

    action: Action
    open: bool
    """True if it is proven, so that it may answer clients."""
    lower: float
    """Anytime-valid lower bound of its mean quality against the reference, 0 to 1."""
    upper: float
    """Anytime-valid upper bound of the same mean."""
    compared: int
    """Comparisons the bounds rest on."""
    expected_more: int | None
    """Comparisons still expected until it opens; None: it is not expected to."""
    region: str = "all"
    """The region of the request's scope: all of it, or a band of the predicted quality."""
    share: float = 1.0
    """Probability, 0 to 1, that this action is among those compared where the request is compared at all."""


def nothing() -> None:
    """Nothing was offloaded."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The proofs for one request (Plan.proof)."""

    region: str
    """Short name of the region, the same in every worker."""
    standings: tuple[Standing, ...]
    share: float
    """Wished probability, 0 to 1, of comparing this request in the background."""

    scope: str = ""
    """The scope that the region belongs to."""
    least: float = 0.0
    """The mean quality that a lower bound has to exceed, 0 to 1."""
    wished: tuple[Action, ...] = ()
    """The actions to compare if this request is compared, drawn so that each region gets its own share."""
    noted: Mapping[str, float] = field(default_factory=dict)
    """The prediction for each action that may be compared, and its grounds: kept with the decision, so that an outcome
    counts for the region that the request was in before it was known."""

    probing: bool = False
    """True if `share` is of requests by which no proof is expected soon: it falls with the money left."""

    shut: bool = False
    """True if the reference answers every request of the scope for now."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    """Mean time of an answer in the scope lately, by the way's key in `noted` or gate.REFERENCE; of those known."""

    take_back: Callable[[], None] = field(default=nothing, compare=False, repr=False)
    """Strikes the request from what is offloaded: the reference answered it after all. To be called once at most."""

    def nearest_to_proof(self) -> Standing | None:
        """The standing that decides where one is open, else the one with the highest lower bound; None without any."""
        return max(self.standings, key=lambda each: (each.open, each.lower), default=None)

    def share_of(self, action: Action) -> float:
        """Probability that the action is asked where the request is compared at all; 1 for one of which nothing is said."""
        return next((each.share for each in self.standings if each.action == action), 1.0)

    @property
    def expected_more(self) -> int | None:
        """Comparisons until the first action is proven, at least; None if none is expected to be."""
        return min(
            (each.expected_more for each in self.standings if each.expected_more is not None), default=None
        )

    def open_actions(self) -> tuple[Action, ...]:
        """The proven actions."""
        return tuple(standing.action for standing in self.standings if standing.open)
