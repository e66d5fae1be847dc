"""Opens a region for an action only on proof: what a policy asks, and what new outcomes are told to.

Two things keep clients from what an engine gets wrong. A region opens where comparisons show that the action's mean loss
there is less than twice `max_loss` (the chance of a mistake is OPENS_WRONGLY per region), so that little is wasted on
engines that are not good enough. And a ledger per tenant lets as many requests be answered as keep what is lost within
`max_loss` of all of them, whatever the engines do (router.guarantee.ledger). What is known follows from the outcomes in the
log's order alone, so every worker comes to the same.
"""

from __future__ import annotations

import hashlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from router.digest import shared_scope
from router.guarantee.evidence import Evidence, Turned
from router.guarantee.ledger import Ledger
from router.plan import Candidate
from router.proving.fingerprint import Fingerprints
from router.proving.neighbours import Near, near
from router.proving.regions import PROBE_SHARE, Compared, Region, Regions
from router.proving.standing import Action, Proof, Standing, nothing
from router.shedding import NEVER, STILL_COMPARED, Loaded
from store.records import Vector

ALPHA = 0.05
"""Chance that more than `max_loss` is ever lost of a tenant's requests to a served model."""
OPENS_WRONGLY = 0.2
"""Chance that a region ever opens although its mean loss is not small enough; what that costs the ledger limits."""
MAY_LOSE = 2.0
"""Times `max_loss` that a region's mean loss must be proven to stay below. The ledger has as many of its requests answered
as keep what is lost of all requests within `max_loss`."""
_MOST_SCOPES = 200
"""Per served model; each holds a few megabytes at most. One more takes the place of the oldest of the tenant with the most:
nobody's varying instructions take another's evidence."""
_BESIDE = 0.1
_BY_PROMISE = 4
OF_REFERENCE = ("again", "right", "copies")
"""The facts that are seen of the reference's own answers: if its second one is equal, what people say of it, and if the
nearest past answer is equal."""
_SIMILARITY, _AGREEMENT = "similarity", "agreement"
_BANK, _VERSION = "bank", "version"
_BY, _ASKED, _NUMBER, _CHECKED, _EXCUSED = "by", "asked", "number", "checked", "excused"
"""See Ledger: the worker that decided, its requests so far, the number of its answer, the share that is checked, and what
checks find lost although nothing is."""
WITHOUT_VECTOR = "without_vector"
"""Noted of a request that was decided without its embedding."""
UNIT = "unit"
"""The number of the request's conversation, as a unit of evidence; nothing of one that stands alone."""
REFERENCE = "reference"
"""Stands for the reference among the ways whose seconds are known."""
_TIMED_FROM, _TIMED_LATEST = 5, 50
"""Answers from which on a way's mean time is believed, and about so many of the latest count."""


@dataclass(frozen=True, slots=True)
class Opening:
    """An action whose region was opened or closed under a scope."""

    tenant: str
    scope: str
    action: Action
    turned: Turned[str]


@dataclass(frozen=True, slots=True)
class SeenOfReference:
    """How good the reference's own answers are found, 0 to 1."""

    count: int
    mean: float
    low: float
    high: float
    """Anytime-valid bounds of the mean at 1 - ALPHA."""


@dataclass(frozen=True, slots=True)
class Account:
    """What a tenant's ledger knows, in requests: all, those that small engines answered, what these have lost at most,
    and how many more may be lost."""

    requests: int
    given: int
    lost: float
    room: float


@dataclass(slots=True)
class _Scope:
    """The regions of every action under one scope."""

    actions: dict[Action, Regions]
    openings: int = 0
    seen: dict[str, Evidence] = field(
        default_factory=lambda: {name: Evidence(0.5, ALPHA) for name in OF_REFERENCE}
    )
    """What was seen of the reference, by OF_REFERENCE."""
    times: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Number of timed answers and their mean in seconds, mostly of the latest, by the action's key or REFERENCE."""

    def took(self, way: str, seconds: float) -> None:
        """An answer took so long, examples included."""
        count, mean = self.times.get(way, (0, 0.0))
        self.times[way] = count + 1, mean + (seconds - mean) / min(count + 1, _TIMED_LATEST)

    def seconds(self) -> dict[str, float]:
        """Return the mean seconds of the ways that were timed often enough."""
        return {way: mean for way, (count, mean) in self.times.items() if count >= _TIMED_FROM}

    @property
    def shut(self) -> bool:
        """Tell if no action answers any request."""
        regions = (region for action in self.actions.values() for region in action)
        return not any(region.open or region.may_try for region in regions)

    @property
    def excused(self) -> float:
        """Return what a check finds lost on average, at least, although nothing is: as of the reference's second answers."""
        return 1.0 - self.seen["again"].bounds()[1]


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
    mean: float | None = None
    """1 less the mean loss, by the evidence that tells best."""
    saving: float | None = None
    """Share of the reference's cost that its answers save, by the prices expected for the latest requests; where known."""
    seconds: float | None = None
    """Mean time of an answer, where it is known; likewise of the reference."""
    reference_seconds: float | None = None
    noise: float | None = None
    """Share of the reference's own second answers that are found worse, if that is too much for a proof."""
    in_doubt: str | None = None
    """The kind of evidence (router.proving.regions) for which what may answer here is compared in full, and does not answer
    meanwhile; None: it is in no doubt."""
    in_doubt_since_s: float | None = None


@dataclass
class Gate:
    """The proofs of the small engines of one served model. Any thread may call it."""

    small: Sequence[str]
    """Names of the engines that need proof, small to large."""
    max_loss: float
    rng: random.Random = field(default_factory=random.Random)
    version: float | None = None
    """The version of what is compared: which models answer, and how examples are chosen. Other versions prove nothing.
    None: the version that the latest outcome has."""
    load: Loaded = NEVER
    """Under which fewer of the wished comparisons are made."""
    rehearsed: Mapping[str, Mapping[Action, float]] = field(default_factory=dict)
    """By shared scope, the mean quality of actions as a rehearsal found it: which is compared first, and so gets most of the
    comparisons. It proves nothing: bounds rest on outcomes alone."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._least = 1.0 - min(MAY_LOSE * self.max_loss, (1.0 + self.max_loss) / 2.0)
        self._follows = self.version is None
        self._scopes: dict[tuple[str, str, float | None], _Scope] = {}
        self._ledgers: dict[str, Ledger] = {}
        self._fingerprints = {engine: Fingerprints() for engine in self.small}
        self._unknown = self._new_scope()
        """What holds of a scope without outcomes."""

    def proof(
        self,
        tenant: str,
        scope: str,
        vector: Vector | None,
        examples: Sequence[Candidate],
        bank: int = 0,
        *,
        unit: float = 0.0,
    ) -> Proof:
        """Return what is proven of each action for a request. `vector` is None where the embedding is not known: then by
        what holds for all requests of the scope alike.

        `examples`: those that would be sent along, if any, out of the tenant's `bank` of so many. `unit`: the number of the
        request's conversation, all of whose turns are compared in the background or none (0: it stands alone).
        """
        shown = near(examples)
        with self._lock:
            state = self._scopes.get((tenant, scope, self.version), self._unknown)
            weighed = []
            beside = 1.0
            actions = self._in_order(scope, state.actions) if self.rehearsed else state.actions
            for action, regions in actions.items():
                if examples or not action.with_examples:
                    weighed.append(_weighed(action, regions, vector, shown, beside))
                if regions.promising:
                    # One at a time, the first of them: with it proven, the others need no proof.
                    beside = _BESIDE
            ledger = self._ledger(tenant)
            ledger.asked += 1
            decides, compared = self._decided(state, weighed, ledger)
            shut, seconds = state.shut, state.seconds()
            share = max((each.share for each in compared), default=0.0)
            given = {each.action: each.share / share for each in compared} if share > 0.0 else {}
            # Of the others nobody asks what is expected, which takes as long as to find the examples.
            predicted = {
                each.action: state.actions[each.action].rank(vector, _of(each.action, shown))
                if each.predicted is None
                else each.predicted
                for each in compared
            }
            standings = tuple(
                _standing(
                    each,
                    given.get(each.action, 0.0),
                    is_open=decides is not None and each.region is decides.region,
                )
                for each in weighed
            )
            noted = {key(action): rank for action, rank in predicted.items()}
            noted |= {_BY: ledger.by, _ASKED: ledger.asked}
            take_back = nothing
            if decides is not None:
                entered, take_back = self._entered(ledger, decides.region, share, state.excused)
                noted |= entered
        if examples:
            noted |= {_SIMILARITY: shown.similarity, _AGREEMENT: shown.agreement, _BANK: float(bank)}
        if self.version is not None:
            noted[_VERSION] = self.version
        if vector is None:
            noted[WITHOUT_VECTOR] = 1.0
        if unit:
            noted[UNIT] = unit
        return Proof(
            region=f"{scope[:8]}:{'+'.join(each.region.name for each in weighed)}",
            standings=standings,
            share=share,
            scope=scope,
            least=self._least,
            wished=tuple(
                each.action
                for each in compared
                if coin(noted, self.rng, key(each.action)) < given.get(each.action, 0.0)
            ),
            noted=noted,
            probing=decides is None and share <= PROBE_SHARE,
            shut=shut,
            seconds=seconds,
            take_back=take_back,
        )

    def _decided(
        self, state: _Scope, weighed: Sequence[_Weighed], ledger: Ledger
    ) -> tuple[_Weighed | None, Sequence[_Weighed]]:
        """Return the action that answers the request, None for the reference, and those to compare, with their shares."""
        opened = [each for each in weighed if each.region.open]
        # Where several are proven the first decides: the others were proven on requests that it does not decide.
        first = sorted(opened, key=lambda each: each.region.opened_at) or self._tried(state, weighed)
        if not first:
            return None, _by_promise(weighed)
        decides = replace(first[0], share=ledger.share())
        if decides.region.in_doubt is not None:
            # The reference answers, and every request is to be compared, until it is known that all is well.
            return None, [replace(decides, share=1.0)]
        return decides if ledger.allows() else None, [decides]

    def _entered(
        self, ledger: Ledger, region: Region, share: float, excused: float
    ) -> tuple[dict[str, float], Callable[[], None]]:
        """Enter into the ledger that a request of the region is offloaded and checked with a probability of `share`. Returns
        what is noted of that, and what strikes it again."""
        shed = self.load.holds("checks")
        if shed or not region.agreed:
            # Too much to do for checks, or people's word opened it, of whom nobody knows whom they are asked of: what is
            # proven is believed, as long as the checks that are still made come back.
            lost, checked = region.most_lost, share * (STILL_COMPARED if shed else 1.0)
            ledger.assume(lost, checked)
            return {_CHECKED: share}, partial(self._strike, ledger.take_back_assumed, lost, checked)
        number = ledger.serve(excused)
        noted = {_NUMBER: number, _CHECKED: share, _EXCUSED: excused}
        return noted, partial(self._strike, ledger.take_back, number, share, excused)

    def _strike(self, entry: Callable[..., None], *told: float) -> None:
        with self._lock:
            entry(*told)

    def hold(self, tenant: str) -> None:
        """Count an answer as offloaded and lost: a small engine gives it although nothing is open, in a tool loop."""
        with self._lock:
            self._ledger(tenant).assume(1.0)

    def whole_is_open(self, tenant: str, scope: str) -> bool:
        """Tell if an action is proven for all requests of the scope alike."""
        with self._lock:
            state = self._scopes.get((tenant, scope, self.version), self._unknown)
            return any(regions.whole.open and not regions.divided for regions in state.actions.values())

    def _in_order(self, scope: str, actions: dict[Action, Regions]) -> dict[Action, Regions]:
        """Order actions: those that a rehearsal found best first; else the cheapest."""
        known = self.rehearsed.get(shared_scope(scope), {})
        return dict(sorted(actions.items(), key=lambda each: -known.get(each[0], 0.0)))

    @staticmethod
    def _tried(state: _Scope, weighed: Sequence[_Weighed]) -> list[_Weighed]:
        """The action that may answer before it is proven, if there is one: the ledger has room for what it can lose. Only
        where it would answer all requests alike, so that what is compared stays a fair sample."""
        likely = [
            each
            for each in weighed
            if each.region.may_try and each.region is state.actions[each.action].whole
        ]
        return sorted(likely, key=lambda each: each.region.most_lost)[:1]

    def add(
        self,
        tenant: str,
        scope: str,
        vector: Vector | None,
        noted: Mapping[str, float],
        action: Action,
        told: Compared,
        seconds: float | None = None,
        fingerprint: str = "",
    ) -> list[Opening]:
        """Count one outcome of a request; `noted` is what its proof noted, and `seconds` what the answer took, where it is
        known. With a `fingerprint` of the engine that is new all that is proven of it is proven anew. Returns what that
        opened or closed."""
        closed = self._closed_by(action.engine, fingerprint)
        predicted = noted.get(key(action))
        if predicted is None:
            return closed
        shown = Near(noted.get(_SIMILARITY, 0.0), noted.get(_AGREEMENT, 0.0))
        version = self._version(noted)
        told = replace(told, unit=noted.get(UNIT, 0.0))
        with self._lock:
            self._account(tenant, noted, told)
            state = self._scopes.pop((tenant, scope, version), None)
            if state is None:
                state = self._new_scope()
            self._scopes[tenant, scope, version] = state
            if len(self._scopes) > _MOST_SCOPES:
                crowding, _ = Counter(whose for whose, *_ in self._scopes).most_common(1)[0]
                del self._scopes[next(each for each in self._scopes if each[0] == crowding)]
            if action not in state.actions:
                return closed
            if seconds is not None:
                state.took(key(action), seconds)
            regions = state.actions[action]
            if action.with_examples:
                regions.grown(noted.get(_BANK, 0.0))
            turned = regions.add(predicted, vector, _of(action, shown), told, opening=state.openings + 1)
            if turned is not None:
                state.openings += 1
            if turned is None:
                return closed
            self._begin_anew_beside(state, action, opened=turned.opened)
            if version != self.version:
                return closed
        return [*closed, Opening(tenant, scope, action, turned)]

    def _closed_by(self, engine: str, fingerprint: str) -> list[Opening]:
        """Close all regions of an engine if its fingerprint is a new one; returns those that were open."""
        with self._lock:
            known = self._fingerprints.get(engine)
            if known is None or not known.changed(fingerprint):
                return []
            return [
                Opening(tenant, scope, action, turned)
                for (tenant, scope, version), state in self._scopes.items()
                for action, regions in state.actions.items()
                if action.engine == engine
                and (turned := regions.close()) is not None
                and version == self.version
            ]

    def saw(
        self,
        tenant: str,
        scope: str,
        noted: Mapping[str, float],
        values: Mapping[str, float],
        seconds: float | None = None,
    ) -> None:
        """Count what is known of an answer of the reference's, 0 to 1 each, by OF_REFERENCE; `noted` and `seconds` as of
        `add`. Before the scope's first comparison there is nowhere to keep it."""
        version = self._version(noted)
        with self._lock:
            state = self._scopes.get((tenant, scope, version))
            if state is None:
                return
            if seconds is not None:
                state.took(REFERENCE, seconds)
            for name in OF_REFERENCE:
                if name in values:
                    state.seen[name].add(values[name], noted.get(UNIT, 0.0))

    def seen(self, tenant: str, scope: str) -> dict[str, SeenOfReference]:
        """Return what was seen of the reference's answers, by OF_REFERENCE as far as known."""
        with self._lock:
            state = self._scopes.get((tenant, scope, self.version), self._unknown)
            return {
                name: SeenOfReference(each.compared, each.mean, *each.bounds())
                for name, each in state.seen.items()
                if each.mean is not None
            }

    def account(self, tenant: str) -> Account:
        """Return what the tenant's ledger knows."""
        with self._lock:
            ledger = self._ledger(tenant)
            return Account(ledger.requests, ledger.given, ledger.lost(), max(0.0, ledger.room()))

    def summary(self) -> list[RegionSummary]:
        """Every region that has outcomes, the scopes with the latest outcomes first."""
        with self._lock:
            return [
                replace(
                    _summary(tenant, scope, action, region),
                    seconds=(seconds := state.seconds()).get(key(action)),
                    reference_seconds=seconds.get(REFERENCE),
                )
                for (tenant, scope, version), state in reversed(self._scopes.items())
                if version == self.version
                for action, regions in state.actions.items()
                for region in regions
                if region.evidence.compared
            ]

    def _account(self, tenant: str, noted: Mapping[str, float], told: Compared) -> None:
        """Enter into the tenant's ledger what an outcome tells of it."""
        if _BY not in noted:
            return
        ledger, by = self._ledger(tenant), int(noted[_BY])
        ledger.note(by, int(noted[_ASKED]))
        if told.quality is None or _CHECKED not in noted:
            return
        if _NUMBER not in noted:
            ledger.check_assumed(by)
            return
        excused = noted.get(_EXCUSED, 0.0)
        ledger.check(by, int(noted[_NUMBER]), noted[_CHECKED], 1.0 - told.quality, excused)

    def _ledger(self, tenant: str) -> Ledger:
        known = self._ledgers.get(tenant)
        if known is None:
            known = self._ledgers[tenant] = Ledger(self.max_loss, ALPHA)
        return known

    def _version(self, noted: Mapping[str, float]) -> float | None:
        """Return the version that an outcome belongs to. If none was noted it is taken for this one's."""
        version = noted.get(_VERSION, self.version)
        if self._follows:
            self.version = version
        return version

    def _new_scope(self) -> _Scope:
        actions = [Action(engine, with_examples) for engine in self.small for with_examples in (False, True)]
        return _Scope({action: Regions(self._least, OPENS_WRONGLY) for action in actions})

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
    predicted: float | None
    """None: it decides nothing here, and was not looked for."""
    share: float


def _weighed(action: Action, regions: Regions, vector: Vector | None, shown: Near, beside: float) -> _Weighed:
    """`beside`: share of the comparisons it is left, while another action is being proven for the whole scope."""
    predicted = regions.rank(vector, _of(action, shown)) if regions.divided else None
    region, share = regions.of(predicted or 0.0), regions.share(predicted or 0.0)
    return _Weighed(action, region, predicted, share if region.open else share * beside)


def _by_promise(weighed: Sequence[_Weighed]) -> list[_Weighed]:
    """Give the better ones of the actions that are only probed more, by the fourth power of what their mean may be."""
    best = max((_at_most(each) for each in weighed), default=1.0)
    return [
        replace(each, share=each.share * (_at_most(each) / best) ** _BY_PROMISE)
        if each.region.hopeless
        else each
        for each in weighed
    ]


def _at_most(weighed: _Weighed) -> float:
    return max(0.01, weighed.region.agreement.bounds()[1])


def coin(noted: Mapping[str, float], rng: random.Random, of: str = "") -> float:
    """A number from 0 to 1 that decides what is compared of a request: the same for all turns of its conversation, and for
    each thing that is decided (`of`) another. `noted`: of its proof."""
    unit = noted.get(UNIT)
    if unit is None:
        return rng.random()
    digest = hashlib.blake2b(f"{unit:.0f} {of}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2.0**64


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
        region.evidence.mean,
        in_doubt=region.in_doubt if region.open or region.likely else None,
        in_doubt_since_s=region.in_doubt_since_s,
    )
