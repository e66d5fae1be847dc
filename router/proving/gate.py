"""Opens a region for an action only on proof: what a policy asks, and what new outcomes are told to.

The chance that any region of a tenant and served model ever opens wrongly is at most `ALPHA`: it is divided over the scopes
in the order in which they were first compared, over the actions, over the regions, and over the times that a region begins
anew. What is known follows from the outcomes in the log's order alone, so every worker comes to the same.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from router.plan import Candidate
from router.proving.neighbours import Near, near
from router.proving.regions import Region, Regions, Turned, spent
from router.proving.standing import Action, Proof, Standing
from store.records import Vector

ALPHA = 0.05
_MOST_SCOPES = 200
"""Per served model, those with the latest outcomes; each holds a few megabytes at most."""
_BESIDE = 0.1
_SIMILARITY, _AGREEMENT = "similarity", "agreement"


@dataclass(frozen=True, slots=True)
class Opening:
    """An action whose region was opened or closed under a scope."""

    tenant: str
    scope: str
    action: Action
    turned: Turned


@dataclass(slots=True)
class _Scope:
    """The regions of every action under one scope."""

    actions: dict[Action, Regions]
    openings: int = 0


@dataclass(frozen=True, slots=True)
class RegionSummary:
    """One region as pages show it."""

    tenant: str
    scope: str
    region: str
    action: Action
    open: bool
    hopeless: bool
    lower: float
    upper: float
    compared: int
    expected_more: int | None


@dataclass(slots=True)
class _Seen:
    """How many scopes of a tenant had outcomes, also those that were let go since."""

    scopes: int = 0


@dataclass
class Gate:
    """What is proven of the small engines of one served model. Any thread may call it."""

    small: Sequence[str]
    """Names of the engines that need proof, small to large."""
    max_loss: float
    rng: random.Random = field(default_factory=random.Random)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._scopes: dict[tuple[str, str], _Scope] = {}
        self._tenants: dict[str, _Seen] = {}
        self._unknown = self._new_scope(0)
        """What holds of a scope without outcomes."""

    def proof(self, tenant: str, scope: str, vector: Vector, examples: Sequence[Candidate]) -> Proof:
        """What is proven of each action for a request. `examples`: those that would be sent along, if any."""
        shown = near(examples)
        with self._lock:
            state = self._scopes.get((tenant, scope), self._unknown)
            weighed = []
            beside = 1.0
            for action, regions in state.actions.items():
                if examples or not action.with_examples:
                    weighed.append(_weighed(action, regions, vector, shown, beside))
                if regions.promising:
                    # One at a time, the cheapest first: with it proven, the others need no proof.
                    beside = _BESIDE
        opened = [each for each in weighed if each.region.open]
        # Where several are proven the first decides: the others were proven on requests that it does not decide.
        decides = min(opened, key=lambda each: each.region.opened_at) if opened else None
        compared = [decides] if decides is not None else weighed
        if decides is not None:
            decides.region.wish(decides.share)
            if decides.region.overdue(self.clock()):
                # The reference answers, and every request is to be compared, until it is known that all is well.
                decides = None
                compared = [replace(each, share=1.0) for each in compared]
        share = max((each.share for each in compared), default=0.0)
        given = {each.action: each.share / share for each in compared} if share > 0.0 else {}
        noted = {key(each.action): each.predicted for each in compared}
        if examples:
            noted |= {_SIMILARITY: shown.similarity, _AGREEMENT: shown.agreement}
        return Proof(
            region=f"{scope[:8]}:{'+'.join(each.region.name for each in weighed)}",
            standings=tuple(
                _standing(each, given.get(each.action, 0.0), is_open=each is decides) for each in weighed
            ),
            share=share,
            scope=scope,
            least=1.0 - self.max_loss,
            wished=tuple(each.action for each in compared if self.rng.random() < given.get(each.action, 0.0)),
            noted=noted,
        )

    def add(
        self,
        tenant: str,
        scope: str,
        vector: Vector,
        noted: Mapping[str, float],
        action: Action,
        quality: float,
    ) -> list[Opening]:
        """Count one outcome of a request; `noted` is what its proof noted. Returns what that opened or closed."""
        predicted = noted.get(key(action))
        if predicted is None:
            return []
        shown = Near(noted.get(_SIMILARITY, 0.0), noted.get(_AGREEMENT, 0.0))
        with self._lock:
            state = self._scopes.pop((tenant, scope), None)
            if state is None:
                seen = self._tenants.setdefault(tenant, _Seen())
                state = self._new_scope(seen.scopes)
                seen.scopes += 1
            self._scopes[tenant, scope] = state
            if len(self._scopes) > _MOST_SCOPES:
                del self._scopes[next(iter(self._scopes))]
            if action not in state.actions:
                return []
            regions = state.actions[action]
            regions.of(predicted).told(self.clock())
            turned = regions.add(predicted, vector, _of(action, shown), quality, opening=state.openings + 1)
            if turned is not None:
                state.openings += 1
            if turned is None:
                return []
            self._begin_anew_beside(state, action, opened=turned.opened)
        return [Opening(tenant, scope, action, turned)]

    def summary(self) -> list[RegionSummary]:
        """Every region that has outcomes, the scopes with the latest outcomes first."""
        with self._lock:
            return [
                _summary(tenant, scope, action, region)
                for (tenant, scope), state in reversed(self._scopes.items())
                for action, regions in state.actions.items()
                for region in regions
                if region.evidence.compared
            ]

    def _new_scope(self, number: int) -> _Scope:
        actions = [Action(engine, with_examples) for engine in self.small for with_examples in (False, True)]
        alpha = ALPHA * spent(number) / len(actions)
        return _Scope({action: Regions(1 - self.max_loss, alpha) for action in actions})

    @staticmethod
    def _begin_anew_beside(state: _Scope, action: Action, *, opened: bool) -> None:
        """Other actions decide on other requests from now on. After a change nothing of them is taken for granted."""
        for other, regions in state.actions.items():
            if other != action:
                regions.restart(proven=not opened)


@dataclass(frozen=True, slots=True)
class _Weighed:
    """An action for one request."""

    action: Action
    region: Region
    predicted: float
    share: float


def _weighed(action: Action, regions: Regions, vector: Vector, shown: Near, beside: float) -> _Weighed:
    """`beside`: share of the comparisons it is left, while another action is being proven for the whole scope."""
    predicted = regions.predicted(vector, _of(action, shown))
    region, share = regions.of(predicted), regions.share(predicted)
    return _Weighed(action, region, predicted, share if region.open else share * beside)


def key(action: Action) -> str:
    """The action's name among what a proof notes."""
    return f"{action.engine}/{'with' if action.with_examples else 'without'}"


def _of(action: Action, shown: Near) -> Near:
    return shown if action.with_examples else Near()


def _standing(weighed: _Weighed, share: float, *, is_open: bool) -> Standing:
    region, evidence = weighed.region, weighed.region.evidence
    lower, upper = evidence.bounds()
    more = region.expected_more
    return Standing(weighed.action, is_open, lower, upper, evidence.compared, more, region.name, share)


def _summary(tenant: str, scope: str, action: Action, region: Region) -> RegionSummary:
    lower, upper = region.evidence.bounds()
    return RegionSummary(
        tenant,
        scope,
        region.name,
        action,
        region.open,
        region.hopeless,
        lower,
        upper,
        region.evidence.compared,
        region.expected_more,
    )
